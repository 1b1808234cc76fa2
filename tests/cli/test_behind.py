"""Options of autotune behind the script: never taken, and said to stand first."""

from __future__ import annotations

from pathlib import Path

import pytest

from autotune.api import diagnose as api
from autotune.cli import run
from autotune.errors import ScriptError, UsageError


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "plain.py").write_text("print(1)\n")
    (tmp_path / "parses.py").write_text('parser.add_argument("--steps")\n')
    (tmp_path / "fields.py").write_text("class Config:\n    time_limit: int = 3\n")
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def words(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, ...]]:
    """What the script was started with, once per run, which ends there."""
    seen: list[tuple[str, ...]] = []

    def diagnose(options, show, *, cwd):
        seen.append(options.words)
        raise UsageError("far enough")

    monkeypatch.setattr(api, "diagnose", diagnose)
    return seen


def test_the_script_gets_them_and_the_user_is_told(project, words, capsys) -> None:
    run(["diagnose", "A=x y", "plain.py", "--lr", "1", "--steps", "30", "--format=json", "--no-lock"])
    assert words == [("A=x y", "plain.py", "--lr", "1", "--steps", "30", "--format=json", "--no-lock")]
    said = capsys.readouterr().err.splitlines()
    named = "--steps, --format, --no-lock stand behind the script, which gets them"
    assert said[0] == f"autotune: {named}. Options of autotune stand first:"
    assert said[1] == "    autotune diagnose --steps 30 --format=json --no-lock -- A='x y' plain.py --lr 1"


@pytest.mark.parametrize(
    "line",
    [
        ["parses.py", "--steps", "30"],
        ["fields.py", "--time-limit", "30"],
        ["plain.py", "--lr", "1"],
        ["plain.py", "steps"],
        ["--quiet", "plain.py", "--steps", "30"],
    ],
)
def test_nothing_is_said_of_options_that_are_the_scripts(project, words, capsys, line) -> None:
    run(["diagnose", *line])
    assert "stand" not in capsys.readouterr().err


def test_a_script_that_fails_with_them_is_answered(project, monkeypatch, capsys) -> None:
    def diagnose(options, show, *, cwd):
        raise ScriptError("it ended with exit code 2", to_do="Its own message stands above.")

    monkeypatch.setattr(api, "diagnose", diagnose)
    assert run(["diagnose", "--quiet", "parses.py", "--steps", "30"]) == 3
    assert capsys.readouterr().err.splitlines()[-2:] == [
        "--steps stands behind the script, which gets it. Options of autotune stand first:",
        "    autotune diagnose --steps 30 -- parses.py",
    ]
