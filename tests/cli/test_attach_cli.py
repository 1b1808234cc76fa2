"""autotune diagnose --pid: what its options ask for, and which do not go with it."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest
from attached_builders import attached

from autotune.attach.attach import AttachOptions
from autotune.cli import run
from autotune.model.outlook import ProgressLine


@pytest.fixture
def asked(monkeypatch):
    """What the process was asked to be looked at with."""
    seen = []

    def attach(options, on_found):
        seen.append(options)
        on_found()
        return attached()

    monkeypatch.setattr("autotune.cli.diagnose.attach", attach)
    return seen


def test_a_process_is_looked_at_for_as_long_as_is_asked_for(asked, capsys):
    assert run(["diagnose", "--pid", "4711"]) == 0
    assert run(["diagnose", "--pid", "4711", "--seconds", "3", "--at", "step 5/10", "--quiet"]) == 0
    assert asked == [AttachOptions(4711, 15.0), AttachOptions(4711, 3.0, ProgressLine(5, 10))]
    said = capsys.readouterr()
    assert said.err == "autotune: looking at process 4711 for 15 s; it goes on meanwhile\n"
    assert said.out.startswith("Starved by its loader.")


def test_a_process_that_is_not_there_is_not_said_to_be_looked_at(capsys):
    assert run(["diagnose", "--pid", str(2**22 + 1)]) == 2
    said = capsys.readouterr().err
    assert "there is no process" in said and "looking at" not in said


def test_json_to_a_file(asked, tmp_path):
    file = tmp_path / "found.json"
    assert run(["diagnose", "--pid", "4711", "--format", "json", "--output", str(file)]) == 0
    assert json.loads(file.read_text())["process"]["pid"] == 4711


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--pid", "7", "train.py"], "it looks at process 7, and train.py would start another"),
        (["--pid", "7", "--steps", "5", "--keep-going"], "--steps, --keep-going is about a run"),
        (["--pid", "7", "--load", "last"], "--load is about a run"),
        (["--pid", "7", "--format", "html"], "unknown format 'html'"),
        (["--seconds", "3", "train.py"], "--seconds: it is about the process of --pid, and there is none"),
        (["--pid", "7", "--tier", "4"], "4 is not in the range"),
        (["--pid", "7", "--seconds", "nan"], "it looks for at most 3,600 seconds"),
        (["--pid", "7", "--seconds", "inf"], "it looks for at most 3,600 seconds"),
        (["--pid", "0"], "0 is not in the range"),
    ],
)
def test_what_does_not_go_with_it_is_an_error(asked, words, said, capsys):
    assert run(["diagnose", *words]) == 2
    assert said in capsys.readouterr().err


def test_nothing_of_a_measurement_is_loaded():
    """The counters of the system need none of torch, psutil, numpy."""
    code = (
        "import os, sys; from autotune.cli import run; "
        "run(['diagnose', '--pid', str(os.getppid()), '--quiet', '--seconds', '1']); "
        "sys.exit(bool({'torch', 'psutil', 'numpy', 'optuna', 'jinja2'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr + done.stdout
    assert "process" in done.stdout
