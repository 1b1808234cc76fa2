"""Options of autotune behind the script: never taken, and said to stand first."""

from __future__ import annotations

from pathlib import Path

import pytest

from autotune.cli import run
from autotune.errors import ScriptError, UsageError


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "plain.py").write_text("print(1)\n")
    (tmp_path / "parses.py").write_text('parser.add_argument("--steps")\n')
    (tmp_path / "run.sh").write_text('#!/bin/sh\npython plain.py "$@"\n')
    (tmp_path / "fields.py").write_text("class Config:\n    time_limit: int = 3\n")
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def words(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, ...]]:
    """What the script was started with, once per run, which ends there."""
    seen: list[tuple[str, ...]] = []

    def diagnose(options, show, *, cwd, publish):
        seen.append(options.words)
        raise UsageError("far enough")

    monkeypatch.setattr("autotune.cli.diagnose.diagnose", diagnose)
    return seen


def test_the_script_gets_them_and_the_user_is_told(project, words, capsys) -> None:
    run(["diagnose", "A=x y", "plain.py", "--lr", "1", "--steps", "30", "--format=json", "--no-lock"])
    assert words == [("A=x y", "plain.py", "--lr", "1", "--steps", "30", "--format=json", "--no-lock")]
    said = capsys.readouterr().err.splitlines()
    named = "--steps, --format, --no-lock are options of autotune diagnose too"
    behind = "After the script they are passed to the script. To pass them to autotune, put them before the script:"
    assert said[0] == f"autotune: {named}. {behind}"
    assert said[1] == "    autotune diagnose --steps 30 --format=json --no-lock -- A='x y' plain.py --lr 1"


@pytest.mark.parametrize("verb", ["diagnose", "verify", "tune", "fit"])
def test_an_option_of_nobody_is_refused_before_anything_is_looked_up(verb, project, words, capsys) -> None:
    assert run([verb, "--formta", "html", "plain.py"]) == 2
    assert "No such option '--formta'. Did you mean '--format'?" in capsys.readouterr().err
    assert run([verb, "-x"]) == 2
    assert words == []


@pytest.mark.parametrize("verb", ["diagnose", "verify", "tune", "fit", "report"])
def test_a_report_that_no_folder_could_hold_is_refused_before_anything_is_measured(verb, project, words, capsys):
    assert run([verb, "--output", "gone/report.html", "plain.py"]) == 2
    assert "there is no folder 'gone'" in capsys.readouterr().err
    assert words == []


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
    assert "of autotune diagnose" not in capsys.readouterr().err


UNKNOWN = "train.py: error: unrecognized arguments: --steps 30"
NOT_USED = "ValueError: Some specified arguments are not used by the HfArgumentParser: ['--steps']"


@pytest.mark.parametrize(
    ("script", "status", "said", "is_answered"),
    [
        (["plain.py"], 2, "", True),
        (["plain.py"], 2, UNKNOWN, True),
        (["plain.py"], 2, "train.py: error: the following arguments are required: --out", False),
        (["plain.py"], 2, UNKNOWN.replace("--steps", "--steps-per-epoch"), False),
        (["plain.py"], 1, "", True),
        (["plain.py"], 1, NOT_USED, True),
        (["plain.py"], 1, "ValueError: no such folder: 30", True),
        (["plain.py"], 0, "", False),
        (["plain.py"], None, "", False),
        (["parses.py"], 2, UNKNOWN, True),
        (["parses.py"], 1, NOT_USED, True),
        (["parses.py"], 2, "", False),
        (["parses.py"], 1, "ValueError: --steps has to be 10 at least", False),
        (["./run.sh"], 1, "", True),
        (["bash", "run.sh"], 1, NOT_USED, True),
        (["A=1", "sh", "run.sh"], 127, "", True),
        (["python", "-m", "plain"], 1, "", True),
        (["-m", "plain"], 2, UNKNOWN, True),
        (["torchrun", "--nproc-per-node", "2", "plain.py"], 1, "", True),
        (["make", "train"], 2, "make: unrecognized option '--steps'", True),
    ],
)
def test_a_script_that_may_have_failed_by_them_is_answered(
    project, monkeypatch, capsys, script, status, said, is_answered
) -> None:
    """However it is started: a shell script passes on what it does not know, and ends as that ends."""

    def diagnose(options, show, *, cwd, publish):
        raise ScriptError("it failed", to_do="Its own message is above.", status=status, said=said)

    monkeypatch.setattr("autotune.cli.diagnose.diagnose", diagnose)
    assert run(["diagnose", "--quiet", *(["--"] if script[0] != "-m" else []), *script, "--steps", "30"]) == 3
    assert capsys.readouterr().err.splitlines()[2:] == [
        "--steps is an option of autotune diagnose too. After the script it is passed to the script. "
        "To pass it to autotune, put it before the script:",
        f"    autotune diagnose --quiet --steps 30 -- {' '.join(script)}",
    ] * is_answered  # fmt: skip


@pytest.mark.parametrize(
    ("script", "status", "said", "is_said"),
    [
        ("plain.py", 2, "", True),
        ("plain.py", 1, NOT_USED, True),
        ("plain.py", 1, "", False),
        ("plain.py", 2, "train.py: error: the following arguments are required: --out", False),
        ("parses.py", 2, "", False),
    ],
)
def test_an_option_of_another_verb_that_the_script_refused_is_said(
    project, monkeypatch, capsys, script, status, said, is_said
) -> None:
    def tune(options, watch, *, cwd):
        raise ScriptError("it failed", to_do="Its own message is above.", status=status, said=said)

    monkeypatch.setattr("autotune.cli.tune.tune", tune)
    assert run(["tune", "--budget", "60", script, "--foo", "1", "--steps=10"]) == 3
    lines = capsys.readouterr().err.splitlines()
    assert lines[2:] == ["--steps is an option of autotune diagnose: autotune tune has none of that name."] * is_said


def test_nothing_is_advised_where_an_option_of_nobody_stands_in_front(project, words, capsys) -> None:
    """It would be advised to type it once more."""
    run(["diagnose", "--budgets", "60", "plain.py", "--steps=10"])
    assert "of autotune diagnose" not in capsys.readouterr().err


@pytest.mark.parametrize(("text", "is_said"), [("--resume", False), ("--resume-from a --resume_at b", True)])
def test_an_option_of_a_longer_name_is_another(project, words, monkeypatch, capsys, text, is_said) -> None:
    (project / "plain.py").write_text(text)
    run(["verify", "plain.py", "--resume"])
    said = "autotune: --resume is an option of autotune verify too." in capsys.readouterr().err
    assert said is is_said
