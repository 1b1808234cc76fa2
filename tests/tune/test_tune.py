"""From a command to what wins: with a diagnosis and trials that are made up, and once with real ones."""

from __future__ import annotations

import os
import re
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from msgspec.structs import replace

from autotune.apply import apply
from autotune.collect import artefacts
from autotune.diagnose import diagnose
from autotune.engine.evidence import join, observed_over
from autotune.engine.load import load_rules
from autotune.errors import ScriptError, UsageError
from autotune.history import predictions, results
from autotune.machine import limits
from autotune.model.evidence import RUN, Fact, Location, Setting
from autotune.model.finding import Evaluation, Finding, Gain, Recommendation, SettingChange
from autotune.model.report import Report, RunSummary, Step
from autotune.model.rule import Effect
from autotune.model.tuned import Outcome, OutOfMemoryNote, SearchTrial, Space, UntriedFinding
from autotune.model.verified import (
    AFTER,
    BEFORE,
    Estimate,
    LossComparison,
    LossVerdict,
    Memory,
    RunResult,
    Schedule,
    Verdict,
    Verified,
)
from autotune.report import machine
from autotune.scan.command import scan_command
from autotune.tune import confirmation, runs
from autotune.tune import tune as api
from autotune.tune.study import JOURNAL
from autotune.tune.trial import BaselineRun, Trials
from autotune.tune.tune import Search
from autotune.verify import budget_check
from autotune.verify.thresholds import LEAST_PAIRS

pytestmark = pytest.mark.usefixtures("few_beside")

TRAIN = "loader#train"
SCRIPT = """\
import argparse
from torch.utils.data import DataLoader
parser = argparse.ArgumentParser()
parser.add_argument("--workers", type=int, default=0)
args = parser.parse_args()
loader = DataLoader(rows(), num_workers=args.workers)
for batch in loader:
    loss(batch).backward()
    optimizer.step()
"""
FACTS = {"run.framework": "raw", "machine.cpus_per_rank": 2.0, "device.type": "cpu"}


def report(root: Path, workers: int = 0, line: int = 6, told: bool = True, **facts) -> Report:
    """What a diagnosis of the script says, whose loader is at `line`; `told` says that the threads were given."""
    run = artefacts.new_run(root)
    (run / "run.json").write_text("{}")
    bundle = scan_command(("train.py",), cwd=root, root=root, versions={})
    at = Location(str(root / "train.py"), line, "DataLoader")
    seen = [
        Setting("loader.num_workers", TRAIN, workers, "observed", at, spelling="num_workers"),
        Setting("train.num_threads", RUN, 2, "observed" if told else "default"),
    ]
    known = [Fact(name, RUN, value) for name, value in {**FACTS, **facts}.items()]
    static = join(bundle.facts, bundle.settings)
    return Report(
        run=RunSummary(("train.py",), "completed", python=sys.executable, startup_s=2.0, folder=str(run)),
        machine={},
        software={},
        step=Step(20, 100.0, 100.0, 100.0, {}, samples_per_s=320.0),
        evidence=observed_over(static, join(known, seen)),
        evaluation=Evaluation((), (), ()),
        recommendations=(),
    )


@dataclass
class Made:
    """What the made-up parts bring; `speed` gives samples a second, or an outcome, for the changes of a trial."""

    report: Report | BaseException
    speed: object
    verified: object = None
    tried: list = field(default_factory=list)
    told: list = field(default_factory=list)
    confirmed: list = field(default_factory=list)
    files: dict = field(default_factory=dict)
    left_s: float = 0.0
    diagnosed: int = 0

    def run_status(self, status) -> None: ...

    def search_started(self, space, trial_s, left_s) -> None:
        self.told.append(("planned", space, trial_s))

    def trials_loaded(self, trials) -> None:
        self.told.append(("known", trials))

    def trial_started(self, number, changes) -> None: ...

    def run_failed(self, text) -> None:
        self.told.append(("said", text))

    def trial_ended(self, trial) -> None:
        self.told.append(("ended", trial))

    def confirmation_started(self, planned) -> None:
        self.told.append(("confirming", planned))


def faster_with_two(changes):
    return 100.0 + 60.0 * (changes.get("loader.num_workers") == 2) - 1.0 * (changes.get("train.num_threads", 2) - 2)


def verified(trials, chosen, verdict=Verdict.FASTER, sameness=LossVerdict.IDENTICAL) -> Verified:
    return Verified(
        against="",
        changes=trials.realisation(chosen).changes,
        verdict=verdict,
        why="",
        estimate=Estimate(1.6, 1.5, 1.7, 0.01),
        step_ms=(100.0, 62.5),
        is_per_sample=False,
        losses=LossComparison(sameness, 20, ""),
        memory=Memory("processes", None, None),
        schedule=Schedule((BEFORE, AFTER) * 4, 20, 3, 40.0),
        seconds=40.0,
    )


@pytest.fixture
def root(tmp_path, monkeypatch):
    (tmp_path / "pyproject.toml").write_text("")
    (tmp_path / "train.py").write_text(SCRIPT)
    return tmp_path


@pytest.fixture
def made(root, monkeypatch):
    found = Made(report(root), faster_with_two)

    def diagnosed(options, show, *, cwd, environ):
        found.diagnosed += 1
        if isinstance(found.report, BaseException):
            raise found.report
        return found.report

    def attempt(self, number, candidate, forecast):
        changes = self.space.changes(candidate)
        found.tried.append(changes)
        came = found.speed(changes)
        if isinstance(came, BaseException):
            raise came
        ended = (came, None, "lost") if isinstance(came, Outcome) else (Outcome.COMPLETED, came, "")
        self.said = "" if ended[1] else f"its last words with {changes}"
        ran_out = OutOfMemoryNote.HOST if came is Outcome.OUT_OF_MEMORY else None
        step_ms = 32_000 / ended[1] if ended[1] else None
        more = {"forecast": forecast, "error": ended[2], "ran_out": ran_out}
        return SearchTrial(number, candidate, ended[0], 0.01, ended[1], step_ms, **more)

    def confirm(trials, chosen, left_s, announce):
        found.confirmed.append(trials.space.changes(chosen))
        found.files, found.left_s = trials.realisation(chosen).files, left_s
        announce(Schedule((BEFORE, AFTER) * 4, 20, 3, 40.0))
        said = found.verified or verified
        return said(trials, chosen)

    monkeypatch.setattr(diagnose, "diagnose", diagnosed)
    monkeypatch.setattr(diagnose, "load", lambda name, *, cwd: found.report)
    monkeypatch.setattr(Trials, "attempt", attempt)
    monkeypatch.setattr(confirmation, "confirm", confirm)
    return found


def tune(made: Made, root: Path, **fields):
    options = api.TuneOptions(**{"words": ("train.py",), "budget_s": 1000.0, "lock": False, **fields})
    return api.tune(options, made, cwd=root)


def test_what_wins_is_confirmed_and_is_the_patch_that_apply_takes(made, root) -> None:
    before = (root / "train.py").read_bytes()
    tuned = tune(made, root)
    assert results.search(artefacts.resolve("last", root)) == tuned
    assert tuned.best == {"loader.num_workers": 2}
    assert tuned.verified.estimate.speedup == 1.6
    assert tuned.trials[0].candidate == tuned.space.current
    assert (root / "train.py").read_bytes() == before
    planned = apply.plan(apply.ApplyOptions(), cwd=root)
    assert [(path.name, b"default=2" in after) for path, _, after in planned.files] == [("train.py", True)]
    assert planned.chosen[0].gain.startswith("brings 3")
    assert [kind for kind, *_ in made.told].count("confirming") == 1


def test_a_history_that_cannot_be_written_loses_no_winner(made, root, monkeypatch) -> None:
    def full(*told):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(predictions, "append", full)
    tuned = tune(made, root)
    assert tuned.best == {"loader.num_workers": 2}
    assert apply.plan(apply.ApplyOptions(), cwd=root).files
    assert "No space left on device" in tuned.verified.notes[-1]


def test_where_nothing_is_faster_nothing_is_confirmed_and_apply_finds_nothing(made, root) -> None:
    made.speed = lambda changes: 100.0 if not changes else 80.0
    tuned = tune(made, root)
    assert (tuned.best, tuned.verified, tuned.patch) == ({}, None, "")
    assert "confirming" not in {kind for kind, *_ in made.told}
    with pytest.raises(UsageError, match="confirmed no candidate as faster") as refused:
        apply.plan(apply.ApplyOptions(), cwd=root)
    assert f"autotune report {tuned.diagnosed}" in refused.value.to_do


@pytest.mark.parametrize(
    "fields",
    [{"verdict": Verdict.CANNOT_TELL}, {"verdict": Verdict.SLOWER}, {"sameness": LossVerdict.DIFFERENT}],
    ids=["cannot tell", "slower", "other losses"],
)
def test_what_does_not_win_the_confirmation_is_not_recommended(made, root, fields) -> None:
    made.verified = lambda trials, chosen: verified(trials, chosen, **fields)
    tuned = tune(made, root)
    assert (tuned.best, tuned.patch) == ({}, "")
    assert tuned.verified is not None


@pytest.mark.parametrize(
    ("error", "why"),
    [
        (UsageError("the budget allowed only 1 of 3 pairs"), "the budget allowed only 1 of 3 pairs"),
        (ScriptError("it crashed"), "it crashed"),
    ],
    ids=["too slow", "failed"],
)
def test_a_confirmation_that_fails_is_none(made, root, error, why) -> None:
    def fail(trials, chosen):
        raise error

    made.verified = fail
    tuned = tune(made, root)
    assert (tuned.best, tuned.verified, tuned.patch) == ({}, None, "")
    (note,) = tuned.notes
    found = re.fullmatch(
        rf"num_workers=2 was (\d\.\d\d)x as fast as the baseline in the trials, but that is not confirmed: {why}", note
    )
    assert found is not None
    assert float(found[1]) > 1.0
    made.verified = None
    tried = list(made.tried)
    assert tune(made, root, resume=True).best == {"loader.num_workers": 2}
    assert made.tried == tried


def faster_with(workers: float, threads: float, both: float = 0.0):
    """Samples a second by what two workers and one thread bring."""

    def speed(changes):
        has = changes.get("loader.num_workers") == 2, changes.get("train.num_threads") == 1
        return 100.0 + workers * has[0] + threads * has[1] + both * all(has)

    return speed


def test_threads_that_a_statement_can_set_are_written(made, root) -> None:
    (root / "train.py").write_text(f"import torch\n{SCRIPT}")
    made.report = report(root, line=7, told=False)
    made.speed = faster_with(60.0, 50.0)
    tuned = tune(made, root)
    assert made.confirmed == [tuned.best] == [{"loader.num_workers": 2, "train.num_threads": 1}]
    assert tuned.by_hand == ()
    ((path, _, after),) = apply.plan(apply.ApplyOptions(), cwd=root).files
    assert b"import DataLoader\n\ntorch.set_num_threads(1)\n\nparser" in after
    assert b"default=2" in after
    assert made.files == {path: after}


def test_only_what_can_be_written_is_confirmed_and_written(made, root) -> None:
    made.speed = faster_with(60.0, 50.0)
    tuned = tune(made, root)
    assert made.confirmed == [tuned.best] == [{"loader.num_workers": 2}]
    planned = apply.plan(apply.ApplyOptions(), cwd=root)
    assert ({change.setting: change.new for change in planned.chosen}, planned.left) == (tuned.best, ())
    assert {path: after for path, _, after in planned.files} == made.files != {}
    (hint,) = tuned.by_hand
    assert (hint.setting, hint.new, hint.edits) == ("train.num_threads", 1, ())
    assert re.fullmatch(r"is expected to bring [23]\d % of the speed", hint.gain)
    assert re.fullmatch(r"brings [34]\d % of the speed, by the trials", tuned.verified.changes[0].gain)
    assert hint.by_hand.startswith("torch.set_num_threads(1): ")


@pytest.mark.parametrize(
    ("speed", "settings"),
    [
        (faster_with(0.0, 50.0), {"train.num_threads": 1}),
        (faster_with(0.0, 0.0, 60.0), {"loader.num_workers": 2, "train.num_threads": 1}),
    ],
    ids=["alone", "together"],
)
def test_what_brings_something_only_by_hand_is_confirmed_so_and_writes_nothing(made, root, speed, settings) -> None:
    made.speed = speed
    tuned = tune(made, root)
    assert made.confirmed == [tuned.best] == [settings]
    planned = apply.plan(apply.ApplyOptions(), cwd=root)
    assert (planned.chosen, planned.files) == ((), ())
    assert {change.setting: change.new for change, _ in planned.left} == settings
    assert all(change.by_hand for change in tuned.verified.changes)
    assert tuned.by_hand == ()


def other_losses_with_workers(trials, chosen):
    has_workers = "loader.num_workers" in trials.space.changes(chosen)
    return verified(trials, chosen, sameness=LossVerdict.DIFFERENT if has_workers else LossVerdict.IDENTICAL)


def test_what_gives_other_losses_is_taken_back_and_the_rest_is_confirmed(made, root) -> None:
    made.speed, made.verified = faster_with(60.0, 50.0), other_losses_with_workers
    tuned = tune(made, root)
    assert made.confirmed == [{"loader.num_workers": 2}, {"train.num_threads": 1}]
    assert tuned.best == {"train.num_threads": 1}
    why = next(one.why for one in tuned.dropped if one.setting == "loader.num_workers")
    assert why.startswith("taken back: the losses differ, and this change may be the cause")


def test_where_the_second_confirmation_is_disturbed_nothing_of_the_first_is_left(made, root) -> None:
    def disturbed(trials, chosen):
        if len(made.confirmed) == 2:
            raise UsageError("the budget allowed only 1 of 3 pairs")
        return other_losses_with_workers(trials, chosen)

    made.speed, made.verified = faster_with(60.0, 50.0), disturbed
    tuned = tune(made, root)
    assert len(made.confirmed) == 2
    assert (tuned.best, tuned.patch, tuned.verified, tuned.by_hand) == ({}, "", None, ())
    assert "is not confirmed: the budget allowed only 1 of 3 pairs" in tuned.notes[0]


def test_what_was_taken_back_without_a_confirmation_is_told(made, root, monkeypatch) -> None:
    made.speed = faster_with(60.0, 0.0)
    monkeypatch.setattr(confirmation, "scaled_losses", lambda trials, chosen: "they are others")
    tuned = tune(made, root)
    assert (made.confirmed, tuned.best, tuned.verified) == ([], {}, None)
    assert tuned.other_losses == ("loader.num_workers",)


def test_without_time_for_a_second_confirmation_the_first_one_is_told(made, root, monkeypatch) -> None:
    made.speed, made.verified = faster_with(60.0, 50.0), other_losses_with_workers
    monkeypatch.setattr(Search, "holds_confirmation", lambda self, more_s=0.0: not made.confirmed)
    tuned = tune(made, root)
    assert made.confirmed == [{"loader.num_workers": 2}]
    assert (tuned.best, tuned.patch, tuned.verified.losses.sameness) == ({}, "", LossVerdict.DIFFERENT)


@pytest.mark.parametrize(("left_s", "kept"), [(1000.0, True), (50.0, False)])
def test_time_for_a_second_confirmation_is_kept_where_losses_may_be_others(
    made, root, monkeypatch, left_s, kept
) -> None:
    proof_s = confirmation.SLACK * 2 * LEAST_PAIRS * BaselineRun(0.1, 2.0, 32.0).trial_s
    monkeypatch.setattr(Search, "left_s", property(lambda self: left_s))
    tune(made, root)
    assert made.left_s == left_s
    monkeypatch.setattr(Space, "touches_learning", lambda self, names: True)
    tune(made, root)
    assert made.left_s == pytest.approx(left_s - proof_s if kept else left_s)


def test_losses_scaled_by_the_accumulation_cost_no_confirmation(made, root, monkeypatch) -> None:
    made.speed = faster_with(60.0, 50.0)
    monkeypatch.setattr(
        confirmation,
        "scaled_losses",
        lambda trials, one: "the factor" if "loader.num_workers" in trials.space.changes(one) else "",
    )
    tuned = tune(made, root)
    assert made.confirmed == [{"train.num_threads": 1}]
    assert any(one.why.endswith("the factor") for one in tuned.dropped)


def test_the_last_words_of_what_failed_are_shown(made, root) -> None:
    def speed(changes):
        return Outcome.FAILED if changes.get("loader.num_workers") == 1 else faster_with_two(changes)

    made.speed = speed
    tune(made, root)
    failed = [changes for changes in made.tried if changes.get("loader.num_workers") == 1]
    assert failed
    assert [told[1] for told in made.told if told[0] == "said"] == [f"its last words with {one}" for one in failed]


def test_own_settings_that_run_out_of_memory_where_nothing_takes_less_end_it_at_once(made, root) -> None:
    made.speed = lambda changes: Outcome.OUT_OF_MEMORY
    with pytest.raises(ScriptError, match="it ran in the diagnosis, but not in a trial: lost") as raised:
        tune(made, root)
    assert "divide the micro-batch" in str(raised.value)
    assert made.tried == [{}]


def test_own_settings_at_the_limit_of_the_memory_are_told_what_fits(made, root) -> None:
    (root / "train.py").write_text(SCRIPT.replace("default=0", "default=2"))
    made.report = report(root, workers=2)

    def speed(changes):
        return 100.0 if changes.get("loader.num_workers") in (0, 1) else Outcome.OUT_OF_MEMORY

    def fail(trials, chosen):
        raise ScriptError("a run failed that succeeded in its trial: lost")

    made.speed, made.verified = speed, fail
    tuned = tune(made, root)
    assert (tuned.best, tuned.patch) == ({}, "")
    (note,) = tuned.notes
    assert note.startswith("the baseline ran in the diagnosis, but ran out of memory in trial 0 (lost)")
    assert re.search(
        r"num_workers=[01] ran at 320 ms per step, with the same global batch: set that, or free memory", note
    )


def test_losers_of_every_kind_do_not_end_the_search(made, root) -> None:
    def speed(changes):
        if changes.get("train.num_threads") == 1:
            return Outcome.TIMED_OUT
        lost = {1: Outcome.FAILED, 3: Outcome.PRUNED, 4: Outcome.OUT_OF_MEMORY}
        return lost.get(changes.get("loader.num_workers"), faster_with_two(changes))

    made.speed = speed
    assert tune(made, root).best == {"loader.num_workers": 2}
    assert len(made.tried) > 3


def test_a_script_that_fails_as_it_is_is_said(made, root) -> None:
    made.speed = lambda changes: Outcome.FAILED
    with pytest.raises(ScriptError, match="it ran in the diagnosis, but not in a trial: lost"):
        tune(made, root)


def test_a_study_whose_own_trial_failed_once_is_not_lost(made, root) -> None:
    url = f"{JOURNAL}{root / 'shared.journal'}"
    made.speed = lambda changes: Outcome.TIMED_OUT
    with pytest.raises(ScriptError):
        tune(made, root, study=url)
    made.speed = faster_with_two
    assert tune(made, root, study=url).best == {"loader.num_workers": 2}


def test_a_script_without_a_step_is_not_tuned(made, root) -> None:
    made.report = replace(made.report, step=None, run=replace(made.report.run, outcome="out_of_memory"))
    with pytest.raises(ScriptError, match="does not run as it is: out_of_memory"):
        tune(made, root)


def named_s(refused) -> float:
    """The budget that a refusal names."""
    return float(re.search(r"--budget (\d+)s", refused.value.to_do)[1])


def test_a_budget_that_holds_no_confirmation_is_refused_before_a_trial(made, root) -> None:
    with pytest.raises(UsageError, match=r"cannot suffice: a run takes about .* by its diagnosis") as refused:
        tune(made, root, budget_s=20.0)
    assert made.tried == []
    assert tune(made, root, budget_s=named_s(refused)).best


def test_a_budget_that_cannot_suffice_by_an_earlier_diagnosis_starts_nothing(made, root, monkeypatch) -> None:
    seen = budget_check.Seen("r", RunResult(BEFORE, 461.6, 30, 3, 11.7 + 32 * 0.4616 + 0.5), 41.0)
    monkeypatch.setattr(budget_check, "newest", lambda root, runs: seen)
    with pytest.raises(UsageError) as refused:
        tune(made, root, budget_s=90.0)
    assert refused.value.what == (
        "90 s cannot suffice: a run takes about 18 s, by the diagnosis r, which took 41 s, and after the diagnosis a "
        "search needs at least 9 runs"
    )
    assert (made.diagnosed, made.tried) == (0, [])
    assert tune(made, root, budget_s=named_s(refused)).best


def test_trials_are_counted(made, root) -> None:
    made.speed = lambda changes: 100.0 + 10 * len(changes)
    tuned = tune(made, root, budget_s=None, num_trials=4)
    assert len(tuned.trials) == len(made.tried) == 4
    assert tuned.stopped == "the limit of 4 trials is reached"


def test_knobs_limit_the_space(made, root) -> None:
    tuned = tune(made, root, knobs=frozenset({"threads"}))
    assert [axis.name for axis in tuned.space.axes] == ["threads"]
    with pytest.raises(UsageError, match="no knob fantasy"):
        tune(made, root, knobs=frozenset({"fantasy"}))


def test_without_anything_to_search_it_says_so(made, root) -> None:
    made.report = report(root, **{"device.type": "cuda"})
    evidence = replace(made.report.evidence, settings={})
    made.report = replace(made.report, evidence=evidence)
    tuned = tune(made, root)
    assert (tuned.trials, tuned.best, tuned.stopped) == ((), {}, "there is nothing to search in this script")


def test_interrupted_the_search_goes_on_where_it_was(made, root) -> None:
    def interrupted(changes):
        return KeyboardInterrupt() if len(made.tried) == 3 else faster_with_two(changes)

    made.speed = interrupted
    with pytest.raises(KeyboardInterrupt):
        tune(made, root)
    kept = made.tried[:2]
    made.speed, made.tried = faster_with_two, []
    tuned = tune(made, root, resume=True)
    assert made.diagnosed == 1
    assert [tuned.space.changes(trial.candidate) for trial in tuned.trials[:2]] == kept
    assert all(changes not in kept for changes in made.tried[:1])
    assert tuned.best == {"loader.num_workers": 2}
    with pytest.raises(UsageError, match="no interrupted search"):
        tune(made, root, resume=True)


def test_only_the_same_command_is_resumed(made, root) -> None:
    made.speed = lambda changes: KeyboardInterrupt()
    with pytest.raises(KeyboardInterrupt):
        tune(made, root)
    for other in ({"words": ("train.py", "--workers", "1")}, {"knobs": frozenset({"threads"})}):
        with pytest.raises(UsageError, match="no interrupted search"):
            tune(made, root, resume=True, **other)


def test_a_shared_study_is_resumed_with_its_storage_only(made, root) -> None:
    url = f"{JOURNAL}{root / 'shared.journal'}"

    def interrupted(changes):
        return KeyboardInterrupt() if len(made.tried) == 3 else faster_with_two(changes)

    made.speed = interrupted
    with pytest.raises(KeyboardInterrupt):
        tune(made, root, study=url)
    with pytest.raises(UsageError, match="its trials are in the storage of --study"):
        tune(made, root, resume=True)
    made.speed, made.tried = faster_with_two, []
    assert tune(made, root, resume=True, study=url).best == {"loader.num_workers": 2}
    assert {} not in made.tried[:1]


def test_a_study_of_its_own_is_not_resumed_in_another_storage(made, root) -> None:
    made.speed = lambda changes: KeyboardInterrupt()
    with pytest.raises(KeyboardInterrupt):
        tune(made, root)
    with pytest.raises(UsageError, match="its trials are in its run folder"):
        tune(made, root, resume=True, study=f"{JOURNAL}{root / 'shared.journal'}")


def test_two_tuners_on_one_storage_share_the_trials(made, root) -> None:
    url = f"{JOURNAL}{root / 'shared.journal'}"
    first = tune(made, root, study=url, budget_s=None, num_trials=3)
    tried, made.tried = made.tried, []
    made.report = report(root)
    second = tune(made, root, study=url)
    assert second.trials[:3] == first.trials[:3]
    assert made.tried[0] not in tried[:3]


def test_two_tuners_at_once_never_try_the_same(made, root) -> None:
    """Correctness, not speed: each of them sees what the other tries at the moment."""
    url = f"{JOURNAL}{root / 'shared.journal'}"
    tune(made, root, study=url, budget_s=None, num_trials=1)

    def speed(changes):
        time.sleep(0.05)
        return faster_with_two(changes)

    made.speed = speed
    with ThreadPoolExecutor(2) as pool:
        both = [pool.submit(tune, made, root, study=url, budget_s=None, num_trials=8) for _ in range(2)]
        first, second = (each.result(timeout=100) for each in both)
    assert first.best["loader.num_workers"] == second.best["loader.num_workers"] == 2
    searched = made.tried[:5]
    assert all(changes not in searched[:at] for at, changes in enumerate(searched))
    numbers = [trial.number for trial in first.trials]
    assert len(set(numbers)) == len(numbers) >= 8


def test_the_words_of_a_command_are_not_kept(made, root) -> None:
    kept = runs.new(root, ("train.py", "--token", "s3cret"), (), None)
    runs.save(kept, ended=False)
    assert "s3cret" not in (kept.folder / "run.json").read_text()
    assert runs.resumed(root, ("train.py", "--token", "s3cret"), (), None) == kept


def test_a_search_is_resumed_with_the_same_launch_command_alone(made, root) -> None:
    launch = "srun --comment s3cret {script}"
    kept = runs.new(root, ("train.py",), (), None, launch)
    runs.save(kept, ended=False)
    assert "s3cret" not in (kept.folder / "run.json").read_text()
    assert runs.resumed(root, ("train.py",), (), None, launch) == kept
    for other in (None, "sbatch --wait {script}"):
        with pytest.raises(UsageError, match="another --launch started its trials"):
            runs.resumed(root, ("train.py",), (), None, other)
    runs.save(runs.new(root, ("other.py",), (), None), ended=False)
    with pytest.raises(UsageError, match="its trials ran on this machine"):
        runs.resumed(root, ("other.py",), (), None, launch)


def test_a_search_is_not_resumed_on_a_machine_of_another_kind(made, root, monkeypatch) -> None:
    made.speed = lambda changes: KeyboardInterrupt() if len(made.tried) == 2 else faster_with_two(changes)
    with pytest.raises(KeyboardInterrupt):
        tune(made, root)
    made.report = replace(made.report, machine={"cpu_name": "the CPU of the report"})
    monkeypatch.setattr(limits, "cpu_name", lambda root: "another CPU")
    with pytest.raises(UsageError, match="kind of machine"):
        tune(made, root, resume=True)


def test_the_trials_of_other_files_or_of_another_python_are_not_reused(made, root, monkeypatch) -> None:
    def begins_anew(**fields) -> bool:
        made.tried = []
        tune(made, root, study=f"{JOURNAL}{root / 'shared.journal'}", **fields)
        return {} in made.tried[:1]

    assert begins_anew()
    assert not begins_anew()
    monkeypatch.setattr(sys, "executable", "/venv/of/another/machine/python")
    assert not begins_anew()
    assert begins_anew(python="/other/python")
    (root / "train.py").write_text(f"{SCRIPT}\n# other\n")
    assert begins_anew()


def test_without_a_script_it_says_what_to_type(root) -> None:
    with pytest.raises(UsageError, match="no script was given"):
        api.tune(api.TuneOptions(()), Made(None, None), cwd=root, environ=os.environ)


def test_a_sqlite_study_of_an_earlier_version_is_continued(made, root, monkeypatch) -> None:
    def interrupted(changes):
        return KeyboardInterrupt() if len(made.tried) == 3 else faster_with_two(changes)

    made.speed = interrupted
    with monkeypatch.context() as earlier:
        earlier.setattr(runs, "JOURNAL", "sqlite:///")
        earlier.setattr(runs, "STUDY", "study.db")
        with pytest.raises(KeyboardInterrupt):
            tune(made, root)
    made.speed, tried, made.tried = faster_with_two, made.tried[:2], []
    tuned = tune(made, root, resume=True)
    assert [tuned.space.changes(trial.candidate) for trial in tuned.trials[:2]] == tried
    assert not any(changes in tried for changes in made.tried[:1])


def test_what_the_diagnosis_found_and_was_not_tried_is_told(made, root) -> None:
    gain, own = Gain(1.5, 1.4, 1.6, "measured"), next(rule for rule in load_rules() if rule.id == "DL001")

    def found(subject, setting, gain=gain):
        change = SettingChange(setting, 0, 1, Effect.EXACT)
        return Recommendation(1, (Finding(own, subject, setting, (change,)),), (change,), Effect.EXACT, gain)

    searched, of_another, saves, unknown = (
        found(TRAIN, "loader.num_workers"),
        found("loader#1", "loader.num_workers"),
        found(RUN, "checkpoint.interval_steps"),
        found(RUN, "train.compile", None),
    )
    made.report = replace(made.report, recommendations=(searched, of_another, saves, unknown))
    tuned = tune(made, root)
    assert [one.message for one in tuned.beyond] == ["loader.num_workers", "checkpoint.interval_steps"]
    assert tuned.beyond[1] == UntriedFinding(("DL001",), "checkpoint.interval_steps", gain)
    assert tuned.diagnosed == Path(made.report.run.folder).name
    assert tuned.command == tuple(made.report.run.command)
    assert tuned.environment == machine.line(made.report)
    made.report = replace(made.report, step=replace(made.report.step, steps=3))
    assert {one.gain.basis for one in tune(made, root).beyond} == {"modelled"}
