from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from msgspec.structs import replace

from autotune.cli import run
from autotune.collect import artefacts
from autotune.errors import ScriptError, UsageError
from autotune.history import commands
from autotune.history.commands import StoredCommand
from autotune.model.patch import PatchChange
from autotune.model.rule import Effect
from autotune.model.verified import (
    AFTER,
    BEFORE,
    Estimate,
    LossComparison,
    LossVerdict,
    Memory,
    Schedule,
    Verdict,
    Verified,
)
from autotune.verify.verify import VerifyOptions

PLANNED = Schedule((BEFORE, AFTER, AFTER, BEFORE) * 2, 40, 3, 40.0)


def verified(verdict: Verdict = Verdict.FASTER, speedup: float = 1.5) -> Verified:
    return Verified(
        against="train.py against other.py",
        changes=(),
        verdict=verdict,
        why="",
        estimate=Estimate(speedup, speedup, speedup, 0.01),
        step_ms=(120.0, 80.0),
        is_per_sample=False,
        losses=LossComparison(LossVerdict.NOT_COMPARED, 0, "none was seen"),
        memory=Memory("processes", None, None),
        schedule=PLANNED,
        seconds=52.0,
    )


@pytest.fixture
def asked(monkeypatch):
    """The Options that the verb was asked for; `result` is what it gets (or raises)."""

    class Asked:
        options: VerifyOptions
        cwd: Path
        result: Verified | BaseException = verified()
        refusal: UsageError | None = None

    def verify(options, announce, show, *, cwd, begins):
        Asked.options, Asked.cwd = options, cwd
        if Asked.refusal is not None:
            raise Asked.refusal
        begins()
        announce(PLANNED, 10.0, "patch 1 (applied)")
        if isinstance(Asked.result, BaseException):
            raise Asked.result
        return Asked.result

    monkeypatch.setattr("autotune.cli.verify.verify", verify)
    return Asked


def test_the_command_and_its_options_reach_the_verb(asked, capsys) -> None:
    words = [
        "--patch",
        "run-1",
        "--budget",
        "2m",
        "--loss-steps",
        "50",
        "--select",
        "DL001,loader.prefetch",
        "--no-lock",
    ]
    assert (
        run(["verify", *words, "--allow", "altering", "--python", "py", "train.py", "--lr", "1", "--budget", "5"]) == 0
    )
    assert asked.options == VerifyOptions(
        ("train.py", "--lr", "1", "--budget", "5"),
        120.0,
        patch="run-1",
        select=("DL001", "loader.prefetch"),
        allow=frozenset([Effect.ALTERING]),
        loss_steps=50,
        python="py",
        lock=False,
    )


def test_by_default_the_last_patch_is_verified_in_a_minute(asked, capsys) -> None:
    assert run(["verify", "train.py"]) == 0
    assert asked.options == VerifyOptions(("train.py",), 60.0)
    out, err = capsys.readouterr()
    assert "Losses: not compared: none was seen" in out
    assert "Resume: not tried" in out
    assert "within 60 s; first a rehearsal of each side" in err
    assert "autotune: patch 1 (applied): 8 runs" in err


def test_without_a_command_it_takes_that_of_the_run_whose_patch_it_measures(
    asked, capsys, tmp_path, monkeypatch
) -> None:
    (tmp_path / "pyproject.toml").write_text("")
    (tmp_path / "src").mkdir()
    monkeypatch.chdir(tmp_path)
    runs = []
    for number, words in enumerate([("old.py",), ("A=1", "python", "my train.py")]):
        run_folder = artefacts.new_run(tmp_path, 1_760_000_000 + number)
        (run_folder / "run.json").write_text("{}")
        commands.store(run_folder, StoredCommand(run_folder.name, words, tmp_path / "src", "py"), words)
        artefacts.mark_last(run_folder)
        runs.append(run_folder.name)
    assert run(["verify"]) == 0
    assert (asked.options.words, asked.options.python, asked.cwd) == (
        ("A=1", "python", "my train.py"), "py", tmp_path / "src",
    )  # fmt: skip
    said = rf"the command of the last diagnosis, \d+ days ago: A=1 python 'my train.py' \(in {tmp_path}/src\)\n"
    assert re.search(said, capsys.readouterr().err)
    assert run(["verify", "--patch", runs[0], "--python", "mine"]) == 0
    assert (asked.options.words, asked.options.python) == (("old.py",), "mine")
    assert re.search(f"the command of run {runs[0]}, .* ago: old.py", capsys.readouterr().err)


def test_where_nothing_is_to_be_measured_no_rehearsal_is_announced(asked, capsys) -> None:
    asked.refusal = UsageError("there is nothing to compare")
    assert run(["verify", "train.py"]) == 2
    assert capsys.readouterr().err == "autotune: there is nothing to compare\n"


@pytest.mark.parametrize("given", [[], ["--resume"]])
def test_the_command_that_goes_on_is_whole(asked, capsys, monkeypatch, given) -> None:
    monkeypatch.setattr("autotune.cli.verify.is_remembered", lambda words, cwd: words == ("my train.py", "--lr", "1"))
    asked.result = verified(verdict=Verdict.CANNOT_TELL)
    assert run(["verify", *given, "--budget", "9", "my train.py", "--lr", "1"]) == 0
    command = "autotune verify --resume --budget 9 'my train.py' --lr 1"
    assert capsys.readouterr().out.splitlines()[-1].strip() == f"Next  {command}"


def test_a_command_that_no_run_keeps_is_not_printed_as_it_may_hold_a_secret(asked, capsys) -> None:
    asked.result = verified(verdict=Verdict.CANNOT_TELL)
    assert run(["verify", "--", "train.py", "--hf_token", "hf_planted"]) == 0
    said = capsys.readouterr()
    assert "Next  the same command with --resume" in said.out
    assert "hf_planted" not in said.out


def test_without_a_command_and_a_run_the_usage_is_said(asked, capsys, tmp_path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert run(["verify"]) == 2
    assert "no script was given, and this project has no run yet" in capsys.readouterr().err


def test_it_may_go_on_from_the_last_one(asked, capsys) -> None:
    assert run(["verify", "--resume", "train.py"]) == 0
    assert asked.options == VerifyOptions(("train.py",), 60.0, resume=True)
    assert "within 60 s; the stored pairs, and more" in capsys.readouterr().err


def test_json_is_all_there_is_on_stdout(asked, capsys) -> None:
    assert run(["verify", "--format", "json", "--against", "other.py", "train.py"]) == 0
    assert json.loads(capsys.readouterr().out)["verdict"] == "faster"
    assert asked.options.against == "other.py"


def test_the_report_goes_into_a_file_that_can_be_written(asked, capsys, tmp_path) -> None:
    file = tmp_path / "verified.html"
    assert run(["verify", "--format", "html", "--output", str(file), "train.py"]) == 0
    assert file.read_text().startswith("<!doctype html>")
    assert capsys.readouterr().out == ""
    assert asked.options.words == ("train.py",)


def test_quiet_is_quiet_and_a_price_is_a_cost(asked, capsys) -> None:
    assert run(["verify", "--quiet", "train.py"]) == 0
    assert capsys.readouterr().err == ""
    assert run(["verify", "--price", "36", "train.py"]) == 0
    assert ", $0.50 in all" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("text", "seconds"), [("60", 60.0), ("90s", 90.0), ("2m", 120.0), ("2 min", 120.0), ("1.5h", 5400.0)]
)
def test_a_budget_is_a_time(asked, text: str, seconds: float) -> None:
    assert run(["verify", "--budget", text, "train.py"]) == 0
    assert asked.options.budget_s == seconds


@pytest.mark.parametrize(
    "wrong",
    [["--budget", "soon"], ["--budget", "-5"], ["--loss-steps", "3"], ["--patch", "a", "--against", "b.py"]],
    ids=" ".join,
)
def test_wrong_usage_is_exit_2(asked, wrong, capsys) -> None:
    assert run(["verify", *wrong, "train.py"]) == 2


@pytest.mark.parametrize(
    ("verdict", "speedup", "required", "code"),
    [
        (Verdict.FASTER, 1.5, "1.05", 0),
        (Verdict.FASTER, 1.05, "1.05", 0),
        (Verdict.FASTER, 1.04, "1.05", 1),
        (Verdict.CANNOT_TELL, 1.5, "1.05", 1),
        (Verdict.NO_DIFFERENCE, 1.04, "1.03", 1),
        (Verdict.NO_DIFFERENCE, 0.99, "1.0", 0),
        (Verdict.SLOWER, 0.9, "1.0", 1),
        (Verdict.SLOWER, 0.9, "0.8", 0),
        (Verdict.CANNOT_TELL, 0.9, None, 0),
    ],
)
def test_a_required_speedup_decides_the_exit_code(asked, verdict, speedup: float, required, code: int, capsys) -> None:
    asked.result = verified(verdict, speedup)
    assert run(["verify", *(["--require-speedup", required] if required else []), "train.py"]) == code
    assert f"{speedup:.2f}x" in capsys.readouterr().out


def test_a_required_speedup_is_compared_with_the_whole_interval(asked, capsys) -> None:
    asked.result = replace(verified(), estimate=Estimate(1.5, 1.04, 2.0, 0.1))
    assert run(["verify", "--require-speedup", "1.05", "train.py"]) == 1
    assert run(["verify", "--require-speedup", "1.04", "train.py"]) == 0


@pytest.mark.parametrize(
    ("effects", "code"),
    [
        ([Effect.EXACT], 1),
        ([Effect.EXACT, Effect.EQUIVALENT], 1),
        ([Effect.EXACT, Effect.ALTERING], 0),
        ([], 0),
    ],
)
def test_other_losses_than_promised_do_not_meet_a_required_speedup(asked, effects, code: int, capsys) -> None:
    changes = tuple(PatchChange("loader.num_workers", "loader#train", 0, 4, ("DL001",), one) for one in effects)
    losses = LossComparison(LossVerdict.DIFFERENT, 40, "the mean differs")
    asked.result = replace(verified(), changes=changes, losses=losses)
    assert run(["verify", "--require-speedup", "1.05", "train.py"]) == code


@pytest.mark.parametrize(("no_colour", "is_coloured"), [(None, True), ("", True), ("1", False)])
def test_a_terminal_has_colours_unless_it_wants_none(asked, monkeypatch, no_colour, is_coloured: bool, capsys) -> None:
    monkeypatch.setattr("sys.stdout.isatty", lambda: True)
    monkeypatch.delenv("NO_COLOR", raising=False)
    if no_colour is not None:
        monkeypatch.setenv("NO_COLOR", no_colour)
    assert run(["verify", "--quiet", "train.py"]) == 0
    assert ("\x1b[" in capsys.readouterr().out) is is_coloured


@pytest.mark.parametrize(("error", "code"), [(ScriptError("the changed script failed"), 3), (KeyboardInterrupt(), 130)])
def test_failures_have_their_codes(asked, error, code: int, capsys) -> None:
    asked.result = error
    assert run(["verify", "train.py"]) == code
    assert capsys.readouterr().out == ""
