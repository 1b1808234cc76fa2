"""The winner against the user's own, with starts that take no time."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

import pytest
from msgspec.structs import replace
from test_trial_outcome import GOOD
from trial_scripts import LOADER_LINE, MISBEHAVING, as_diagnosed

from autotune.errors import ScriptError
from autotune.model.derived import Derived
from autotune.model.evidence import RUN, Fact, Setting
from autotune.model.patch import Edit, PatchChange
from autotune.model.rule import Effect
from autotune.model.tuned import Axis, Space
from autotune.model.verified import AFTER, BEFORE, LossComparison, LossVerdict, RunResult, Verdict
from autotune.tune import confirmation, trial
from autotune.tune.realisation import Realisation
from autotune.tune.trial import BaselineRun, Trials, Workspace
from autotune.verify.runs import SideRunner
from autotune.verify.schedule import FreeResources
from autotune.verify.sides import Sides
from autotune.verify.thresholds import LEAST_PAIRS

SPACE = Space((Axis("workers", "loader#train", ({"loader.num_workers": 0}, {"loader.num_workers": 2}), 0),))
OWN, BEST = (0,), (1,)


@pytest.fixture
def trials(tmp_path, monkeypatch):
    """Trials of both candidates that went well."""
    (tmp_path / "train.py").write_text(MISBEHAVING)
    workspace = Workspace(tmp_path, tmp_path, {}, "python", {}, {}, lambda status: None)
    made = Trials(workspace, as_diagnosed(Path(tmp_path / "train.py"), LOADER_LINE), SPACE, BaselineRun(0.1, 1.0, 4.0))
    made.starts[OWN], made.starts[BEST] = start(AFTER, 100.0), start(AFTER, 80.0)
    return made


def start(side: str, step_ms: float) -> RunResult:
    return RunResult(side, step_ms, 20, 3, 4.0, losses=(1.0, 0.5))


@dataclass
class Ran:
    """What the starts of each side bring; `asked` are (side, Request, words)."""

    step_ms: dict = field(default_factory=lambda: {BEFORE: 100.0, AFTER: 80.0})
    workers: dict = field(default_factory=lambda: {BEFORE: 0, AFTER: 2})
    global_batch: dict = field(default_factory=lambda: {BEFORE: 4, AFTER: 4})
    batch_size: dict = field(default_factory=lambda: {BEFORE: 4, AFTER: 4})
    asked: list = field(default_factory=list)


@pytest.fixture
def ran(monkeypatch):
    """What each side brings; `asked` are its Requests."""
    brought = Ran()

    def run(self, side, request):
        brought.asked.append((side, request, self.sides.words[side]))
        seen = Setting("loader.num_workers", "loader#train", brought.workers[side], "observed")
        size = Setting("loader.batch_size", "loader#train", brought.batch_size[side], "observed")
        batch = Fact("run.global_batch", RUN, brought.global_batch[side])
        return GOOD, start(side, brought.step_ms[side]), Derived((batch,), (seen, size), None)

    monkeypatch.setattr(SideRunner, "run", run)
    return brought


def test_sides_take_turns_and_the_faster_one_wins(trials, ran) -> None:
    told = []
    verified = confirmation.confirm(trials, BEST, 1000.0, told.append)
    assert [side for side, *_ in ran.asked][:4] == [BEFORE, AFTER, AFTER, BEFORE]
    assert verified.verdict is Verdict.FASTER
    assert verified.estimate.speedup == pytest.approx(1.25)
    assert [change.setting for change in verified.changes] == ["loader.num_workers"]
    assert confirmation.has_won(verified)
    assert len(told) == 1
    assert len(verified.schedule.order) == len(ran.asked)


def test_processes_that_may_be_stopped_take_turns(trials, ran, monkeypatch) -> None:
    for one, made in trials.starts.items():
        trials.starts[one] = replace(made, may_be_stopped=True, memory_bytes=1000, wait_s=0.0)
    together = []

    def in_turns(self, requests, turns):
        together.append(tuple(requests))
        return {side: self.run(side, request) for side, request in requests.items()}

    monkeypatch.setattr(SideRunner, "in_turns", in_turns)
    monkeypatch.setattr(confirmation, "free_resources", lambda: FreeResources(4000, 2.0))
    assert confirmation.confirm(trials, BEST, 1000.0, lambda planned: None).schedule.turns
    assert together[:2] == [(BEFORE, AFTER), (AFTER, BEFORE)]
    assert 2 * len(together) == len(ran.asked)


def test_both_sides_measure_the_steps_of_the_schedule_after_the_same_warm_up(trials, ran) -> None:
    told = []
    confirmation.confirm(trials, BEST, 1000.0, told.append)
    assert {request.warmup for _, request, _ in ran.asked} == {3}
    (steps,) = {request.steps for _, request, _ in ran.asked}
    assert steps == told[0].steps > trials.request(trials.realisation(BEST)).default_steps


def test_what_it_plans_holds_the_windows_that_use_up_what_workers_have_ready(trials, ran, monkeypatch) -> None:
    monkeypatch.setattr(trial, "USED_UP", 20)
    needed = trials.request(trials.realisation(BEST)).default_steps
    assert needed == 80
    told = []
    confirmation.confirm(trials, BEST, -5.0, told.append)
    assert {request.steps for _, request, _ in ran.asked} == {told[0].steps} == {needed}
    assert told[0].seconds > LEAST_PAIRS * needed * (0.1 + 0.08)


def test_both_sides_measure_the_same_whole_epochs(trials, ran) -> None:
    trials.baseline = replace(trials.baseline, epoch_steps=7)
    assert trials.baseline.multiple == 7
    confirmation.confirm(trials, BEST, 1000.0, lambda planned: None)
    (steps,) = {request.steps for _, request, _ in ran.asked}
    assert steps % 7 == 0


def test_a_slow_start_is_measured_to_its_end(trials, ran) -> None:
    confirmation.confirm(trials, BEST, 1000.0, lambda planned: None)
    longest_of_a_trial = trials.request(trials.realisation(BEST)).time_limit_s
    assert min(request.time_limit_s for _, request, _ in ran.asked) > 5 * longest_of_a_trial


def test_the_least_number_of_pairs_is_made_whatever_is_left(trials, ran) -> None:
    confirmation.confirm(trials, BEST, -5.0, lambda planned: None)
    assert len(ran.asked) == 2 * LEAST_PAIRS


def test_a_start_that_has_other_settings_is_no_confirmation(trials, ran) -> None:
    ran.workers = {BEFORE: 0, AFTER: 0}
    with pytest.raises(ScriptError, match="num_workers should have been 2: the run had 0"):
        confirmation.confirm(trials, BEST, 1000.0, lambda planned: None)


def test_a_start_of_another_global_batch_is_no_confirmation_whatever_was_allowed(trials, ran, monkeypatch) -> None:
    known = trials.script.evidence
    facts = {**known.facts, RUN: {**known.facts[RUN], "run.global_batch": 4}}
    trials.script = replace(trials.script, evidence=replace(known, facts=facts))
    assert confirmation.confirm(trials, BEST, 1000.0, lambda planned: None).verdict is Verdict.FASTER
    ran.global_batch = {BEFORE: 4, AFTER: 8}
    for effect in (Effect.EQUIVALENT, Effect.ALTERING):
        monkeypatch.setattr(Sides, "effect", effect)
        with pytest.raises(ScriptError, match=r"8 samples.* 4"):
            confirmation.confirm(trials, BEST, 1000.0, lambda planned: None)


@pytest.mark.parametrize("side", [BEFORE, AFTER])
def test_a_start_whose_micro_batch_is_another_is_no_confirmation_though_only_workers_change(trials, ran, side) -> None:
    batches = ({"loader.batch_size": 4}, {"loader.batch_size": 8})
    trials.space = Space((*SPACE.axes, Axis("batch", "loader#train", batches, 0)))
    trials.starts = {(0, 0): start(AFTER, 100.0), (1, 0): start(AFTER, 80.0)}
    assert confirmation.confirm(trials, (1, 0), 1000.0, lambda planned: None).verdict is Verdict.FASTER
    ran.batch_size[side] = 8
    with pytest.raises(ScriptError, match="batch_size should have been 4: the run had 8"):
        confirmation.confirm(trials, (1, 0), 1000.0, lambda planned: None)
    ran.batch_size[side] = None
    assert confirmation.confirm(trials, (1, 0), 1000.0, lambda planned: None).verdict is Verdict.FASTER


def test_without_a_trial_of_this_tuner_it_is_rehearsed(trials, ran) -> None:
    trials.starts.clear()
    verified = confirmation.confirm(trials, BEST, 1000.0, lambda planned: None)
    assert verified.verdict is Verdict.FASTER
    assert [side for side, *_ in ran.asked][:2] == [AFTER, AFTER]


def accumulated(monkeypatch, effect=Effect.EQUIVALENT) -> None:
    """As if the best had twice the accumulation steps."""
    change = PatchChange("train.accumulation_steps", RUN, 2, 4, ("tune",), effect)
    monkeypatch.setattr(Trials, "realisation", lambda self, one: Realisation((), changes=(change,)))


def test_losses_by_the_factor_of_the_accumulation_steps_are_seen_in_the_trials(trials, monkeypatch) -> None:
    accumulated(monkeypatch)
    assert confirmation.scaled_losses(trials, BEST) == ""
    trials.starts[BEST] = replace(trials.starts[BEST], losses=(2.0, 1.0))
    assert "that is the factor of the accumulation steps" in confirmation.scaled_losses(trials, BEST)
    accumulated(monkeypatch, Effect.ALTERING)
    assert confirmation.scaled_losses(trials, BEST) == ""
    accumulated(monkeypatch)
    del trials.starts[BEST]
    assert confirmation.scaled_losses(trials, BEST) == ""


def test_what_a_start_that_failed_wrote_is_known_until_the_next(trials, ran, monkeypatch) -> None:
    failed = replace(GOOD, recordings=(), ended_by="script", exit_code=1, said="Traceback\nValueError: no rows")
    with monkeypatch.context() as patched:
        patched.setattr(SideRunner, "run", lambda self, side, request: (failed, None, None))
        assert trials.attempt(1, BEST, None).error == "ValueError"
    assert trials.said == failed.said
    assert trials.attempt(2, BEST, None).error == ""
    assert trials.said == ""


def test_changes_are_written_all_together_or_all_by_hand() -> None:
    edit = Edit("train.py", "num_workers", "0", "2", sha256="0")
    workers = PatchChange("loader.num_workers", "loader#train", 0, 2, ("tune",), Effect.EQUIVALENT, edits=(edit,))
    threads = PatchChange("train.num_threads", RUN, 2, 1, ("tune",), Effect.EXACT, by_hand="num_threads = 1: no place")
    is_so = PatchChange("optimizer.fused", "optimizer#0", None, True, ("tune",), Effect.EQUIVALENT)
    assert confirmation.written_together([workers, is_so]) == (workers, is_so)
    first, second, third = confirmation.written_together([workers, threads, is_so])
    assert (first.edits, second, third) == ((), threads, is_so)
    assert first.by_hand.startswith("loader.num_workers = 2: ")
    assert "train.num_threads" in first.by_hand


def test_where_one_is_altering_each_needs_all_others() -> None:
    edit = Edit("train.py", "key", "0", "2", sha256="0")
    precision = PatchChange("train.precision", RUN, "fp32", "bf16", ("tune",), Effect.ALTERING, edits=(edit,))
    batch = PatchChange("loader.batch_size", "loader#train", 8, 32, ("tune",), Effect.EQUIVALENT, edits=(edit,))
    steps = replace(batch, setting="train.accumulation_steps", subject=RUN, needs=("loader.batch_size",))
    found = confirmation.written_together([precision, batch, steps])
    assert [(one.setting, one.needs) for one in found] == [
        ("train.precision", ("loader.batch_size", "train.accumulation_steps")),
        ("loader.batch_size", ("train.precision", "train.accumulation_steps")),
        ("train.accumulation_steps", ("loader.batch_size", "train.precision")),
    ]
    assert all(one.edits for one in found)
    (alone,) = confirmation.written_together([precision])
    assert alone == precision


def test_what_no_edit_makes_is_by_hand(trials) -> None:
    assert confirmation.manual_changes(trials, BEST) == frozenset()
    trials.space = Space((Axis("threads", RUN, ({"train.num_threads": 1}, {"train.num_threads": 2}), 1),))
    assert confirmation.manual_changes(trials, (0,)) == {"train.num_threads"}


def test_other_losses_win_only_where_that_was_allowed(trials, ran) -> None:
    verified = confirmation.confirm(trials, BEST, 1000.0, lambda planned: None)
    other = replace(verified, losses=LossComparison(LossVerdict.DIFFERENT, 20, ""))
    change = PatchChange("data.packing", "run", False, True, ("tune",), Effect.ALTERING)
    assert not confirmation.has_won(other)
    assert confirmation.has_other_losses(other)
    assert confirmation.has_won(replace(other, changes=(change,)))
    assert not confirmation.has_other_losses(replace(other, changes=(change,)))
    assert not confirmation.has_won(replace(verified, verdict=Verdict.NO_DIFFERENCE))
