"""`autotune watch`: a folder is read, a command becomes the process."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from autotune.cli import run
from autotune.watched import start


@pytest.fixture
def started(monkeypatch):
    """What would be executed: the words and their environment."""
    seen = []

    def execute(file, words, environ):
        seen.append((list(words), environ))
        raise SystemExit(0)

    monkeypatch.setattr(start.os, "execvpe", execute)
    return seen


def test_a_command_is_started_with_its_arguments_and_the_variables_of_the_watch(started, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "train.py").touch()
    with pytest.raises(SystemExit):
        run(["watch", "--prometheus", "m.prom", "--python", sys.executable, "train.py", "--lr", "1e-4"])
    ((words, environ),) = started
    assert words == [sys.executable, "train.py", "--lr", "1e-4"]
    assert environ["AUTOTUNE_WATCH"] == "1"
    assert environ["AUTOTUNE_WATCH_PROMETHEUS"] == str(tmp_path / "m.prom")
    assert environ["PYTHONPATH"].split(os.pathsep)[0].endswith("probe/boot")


def test_quiet_is_handed_on(started, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "train.py").touch()
    with pytest.raises(SystemExit):
        run(["watch", "--quiet", "--", "python", "train.py"])
    assert started[0][1]["AUTOTUNE_WATCH"] == "quiet"


def test_a_folder_without_states_says_how_to_begin(tmp_path, capsys):
    assert run(["watch", str(tmp_path)]) == 2
    assert "no watched run has left its state here" in capsys.readouterr().err


def test_a_script_that_is_not_there_is_an_error(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert run(["watch", "train.py"]) == 2
    assert "there is no such script" in capsys.readouterr().err


def test_the_exit_code_is_that_of_the_command(tmp_path):
    (tmp_path / "ends.py").write_text("import sys\nprint(sys.argv[1:])\nsys.exit(5)\n")
    words = [sys.executable, "-m", "autotune", "watch", "ends.py", "--steps", "3"]
    environ = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run(words, cwd=tmp_path, env=environ, capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (5, "['--steps', '3']\n"), done.stderr
