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
    named = "--steps, --format, --no-lock are options of autotune diagnose too"
    behind = "After the script they are passed to the script. To pass them to autotune, put them before the script:"
    assert said[0] == f"autotune: {named}. {behind}"
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
    assert "too. Behind" not in capsys.readouterr().err


UNKNOWN = "train.py: error: unrecognized arguments: --steps 30"


@pytest.mark.parametrize(
    ("script", "status", "said", "is_answered"),
    [
        ("plain.py", 2, "", True),
        ("plain.py", 2, UNKNOWN, True),
        ("plain.py", 2, "train.py: error: the following arguments are required: --out", False),
        ("plain.py", 2, UNKNOWN.replace("--steps", "--steps-per-epoch"), False),
        ("plain.py", 1, UNKNOWN, False),
        ("plain.py", None, "", False),
        ("parses.py", 2, UNKNOWN, False),
    ],
)
def test_a_parser_that_refuses_them_is_answered(
    project, monkeypatch, capsys, script, status, said, is_answered
) -> None:
    def diagnose(options, show, *, cwd):
        raise ScriptError("it failed", to_do="Its own message is above.", status=status, said=said)

    monkeypatch.setattr(api, "diagnose", diagnose)
    assert run(["diagnose", "--quiet", script, "--steps", "30"]) == 3
    assert capsys.readouterr().err.splitlines()[2:] == [
        "--steps is an option of autotune diagnose too. After the script it is passed to the script. "
        "To pass it to autotune, put it before the script:",
        "    autotune diagnose --quiet --steps 30 -- plain.py",
    ] * is_answered  # fmt: skip


@pytest.mark.parametrize(("text", "is_said"), [("--resume", False), ("--resume-from a --resume_at b", True)])
def test_an_option_of_a_longer_name_is_another(project, words, monkeypatch, capsys, text, is_said) -> None:
    (project / "plain.py").write_text(text)
    run(["verify", "plain.py", "--resume"])
    said = "autotune: --resume is an option of autotune verify too." in capsys.readouterr().err
    assert said is is_said
