from __future__ import annotations

import json

import pytest

from autotune.cli import run
from autotune.collect import Status
from autotune.errors import ScriptError, UsageError
from autotune.model.rule import Effect
from autotune.model.tuned import Axis, Outcome, SearchTrial, Space, Tuned
from autotune.model.verified import AFTER, BEFORE, Schedule
from autotune.tune.tune import TuneOptions

SPACE = Space((Axis("workers", "loader#train", ({"loader.num_workers": 0}, {"loader.num_workers": 2}), 0),))
TRIALS = (
    SearchTrial(0, (0,), Outcome.COMPLETED, 6.0, 100.0, 120.0),
    SearchTrial(1, (1,), Outcome.COMPLETED, 6.0, 150.0, 80.0),
    SearchTrial(2, (1,), Outcome.OUT_OF_MEMORY, 6.0, error="can't allocate memory"),
)


@pytest.fixture
def asked(monkeypatch):
    """The Options that the verb was asked for; `result` is what it gets (or raises after `num` trials)."""

    class Asked:
        options: TuneOptions
        result: Tuned | BaseException = Tuned(SPACE, TRIALS, {}, None, "nothing is left to try", 60.0, 10.0)
        num = 3
        known: tuple[SearchTrial, ...] = ()
        said = ""

    def tune(options, watch, *, cwd):
        Asked.options = options
        watch.run_status(Status(1.0))
        watch.search_started(SPACE, 6.0, options.budget_s)
        watch.trials_loaded(Asked.known)
        for trial in TRIALS[: Asked.num]:
            watch.trial_started(trial.number, SPACE.changes(trial.candidate))
            watch.run_status(Status(1.0, 3, "measuring"))
            watch.run_failed(Asked.said if trial.error else "")
            watch.trial_ended(trial)
        if isinstance(Asked.result, BaseException):
            raise Asked.result
        watch.confirmation_started(Schedule((BEFORE, AFTER) * 4, 20, 3, 40.0))
        return Asked.result

    monkeypatch.setattr("autotune.cli.tune.tune", tune)
    return Asked


def test_the_command_and_its_options_reach_the_verb(asked) -> None:
    words = [
        "--budget",
        "2m",
        "--trials",
        "9",
        "--knobs",
        "batch,workers",
        "--knobs",
        "threads",
        "--study",
        "sqlite:///a",
    ]
    more = ["--resume", "--allow", "altering", "--python", "py", "--no-lock", "train.py", "--lr", "1", "--trials", "5"]
    assert run(["tune", *words, *more]) == 0
    assert asked.options == TuneOptions(
        ("train.py", "--lr", "1", "--trials", "5"),
        budget_s=120.0,
        num_trials=9,
        knobs=frozenset({"batch", "workers", "threads"}),
        study="sqlite:///a",
        resume=True,
        allow=frozenset({Effect.ALTERING}),
        python="py",
        lock=False,
    )


@pytest.mark.parametrize(
    ("words", "budget_s", "num"), [([], 600.0, None), (["--trials", "5"], None, 5), (["--budget", "90"], 90.0, None)]
)
def test_without_trials_there_is_a_budget(asked, words, budget_s, num) -> None:
    assert run(["tune", *words, "train.py"]) == 0
    assert (asked.options.budget_s, asked.options.num_trials) == (budget_s, num)


def test_it_says_what_goes_on(asked, capsys) -> None:
    assert run(["tune", "--price", "3.6", "train.py"]) == 0
    out, err = capsys.readouterr()
    assert "autotune: 2 configurations of workers (2); " in err
    assert "autotune: trial 0: baseline: 120 ms per step\n" in err
    assert "autotune: trial 1: num_workers=2: 80.0 ms per step, 1.50x\n" in err
    assert "autotune: trial 2: num_workers=2: out of memory: can't allocate memory\n" in err
    assert "autotune: A/B confirmation of the best candidate: 8 runs, 4 per side" in err
    assert "Keep what you have" in out


def test_the_last_lines_of_a_start_that_failed_are_shown_before_its_end(asked, capsys) -> None:
    asked.said = "\n".join(f"line {number}" for number in range(40))
    assert run(["tune", "train.py"]) == 0
    lines = capsys.readouterr().err.splitlines()
    at = lines.index("line 39")
    assert lines[at - 14] == "line 25"
    assert "line 24" not in lines
    assert lines[at + 1] == "autotune: trial 2: num_workers=2: out of memory: can't allocate memory"
    assert run(["tune", "--quiet", "train.py"]) == 0
    assert capsys.readouterr().err == ""


def test_trials_that_were_made_before_count(asked, capsys) -> None:
    asked.known, asked.num = TRIALS, 0
    assert run(["tune", "--resume", "train.py"]) == 0
    assert "autotune: the study has 3 trials already; best 1.50x\n" in capsys.readouterr().err


def test_quiet_is_quiet_and_json_is_all_there_is_on_stdout(asked, capsys) -> None:
    assert run(["tune", "--quiet", "--format", "json", "train.py"]) == 0
    out, err = capsys.readouterr()
    assert json.loads(out)["best"] == {"loader.num_workers": 0}
    assert err == ""


def test_the_report_goes_into_a_file(asked, capsys, tmp_path) -> None:
    assert run(["tune", "--format", "markdown", "--output", str(tmp_path / "search.md"), "train.py"]) == 0
    assert "Keep what you have" in (tmp_path / "search.md").read_text()
    assert capsys.readouterr().out == ""


@pytest.mark.parametrize(
    ("num", "words"),
    [
        (0, "no trial had finished"),
        (1, "the best so far was the baseline, not confirmed"),
        (
            3,
            "the best so far was num_workers=2, 1.50x, not confirmed; the trials are stored: continue with the same",
        ),
    ],
)
def test_interrupted_it_says_the_best_so_far_and_how_to_go_on(asked, num, words, capsys) -> None:
    asked.result, asked.num = KeyboardInterrupt(), num
    assert run(["tune", "train.py"]) == 130
    out, err = capsys.readouterr()
    assert out == ""
    assert words in err


def test_told_to_end_by_a_signal_it_says_so_too(asked, capsys) -> None:
    asked.result = SystemExit(143)
    with pytest.raises(SystemExit):
        run(["tune", "train.py"])
    assert "the best so far was num_workers=2" in capsys.readouterr().err


@pytest.mark.parametrize(("error", "code"), [(ScriptError("it fails"), 3), (UsageError("too small"), 2)])
def test_failures_have_their_codes(asked, error, code: int, capsys) -> None:
    asked.result = error
    assert run(["tune", "train.py"]) == code
    assert capsys.readouterr().out == ""


@pytest.mark.parametrize("wrong", [["--budget", "soon"], ["--trials", "0"], ["--allow", "manual"]], ids=" ".join)
def test_wrong_usage_is_exit_2(asked, wrong) -> None:
    assert run(["tune", *wrong, "train.py"]) == 2
