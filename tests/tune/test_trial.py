"""Trials with real processes that go wrong in every way, and what is left of them."""

from __future__ import annotations

import math
import os
import sys
from contextlib import nullcontext
from hashlib import sha256
from pathlib import Path

import psutil
import pytest
import shared_memory
from msgspec.structs import replace
from trial_scripts import LOADER_LINE, MISBEHAVING, as_diagnosed

from autotune.collect import Status
from autotune.collect.isolation import HOOKS, KERNEL
from autotune.errors import ScriptError
from autotune.machine import limits
from autotune.model.evidence import RUN, Fact
from autotune.model.tuned import Axis, Outcome, OutOfMemoryNote, SearchTrial, Space
from autotune.tune import trial as module
from autotune.tune.trial import BaselineRun, Trials, Workspace
from autotune.verify import scratch
from autotune.verify.thresholds import LEAST_WINDOW_STEPS, WINDOW_S

pytestmark = pytest.mark.usefixtures("few_beside")

SPACE = Space((Axis("workers", "loader#train", tuple({"loader.num_workers": count} for count in range(10)), 0),))

HANGS, HANGS_IN_A_STEP = 2, 6


@pytest.fixture(scope="module")
def root(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("project")
    (folder / "pyproject.toml").write_text("")
    (folder / "train.py").write_text(MISBEHAVING)
    return folder


def tree(root: Path) -> dict[str, str]:
    return {
        str(path): sha256(path.read_bytes()).hexdigest()
        for path in root.rglob("*")
        if path.is_file() and ".autotune" not in path.parts
    }


def running(root: Path) -> list[list[str]]:
    """Processes that trials in the project have started."""
    found = []
    for process in psutil.process_iter():
        try:
            if process.status() != psutil.STATUS_ZOMBIE and process.environ().get("TRIAL_ROOT") == str(root):
                found.append(process.cmdline())
        except psutil.Error:
            continue
    return found


@pytest.fixture
def attempt(root, monkeypatch):
    """attempt(point): the trial of that number of workers; nothing of it may be left, and no file changed."""
    before, shared = tree(root), shared_memory.names()

    def run(point: int, show=lambda status: None) -> SearchTrial:
        # What never comes is not waited for long; what comes may take its time on a busy machine.
        monkeypatch.setattr(module, "LEAST_START_UP_S", 4.0 if point == HANGS else 120.0)
        baseline = BaselineRun(0.01 if point == HANGS_IN_A_STEP else 0.1, 1.0, 4.0)
        original = {root / "train.py": (root / "train.py").read_bytes()}
        script = as_diagnosed(root / "train.py", LOADER_LINE)
        with scratch.mirrored(root, frozenset(original)) as mirrors:
            workspace = Workspace(
                root, root, {**os.environ, "TRIAL_ROOT": str(root)}, sys.executable, mirrors, original, show
            )
            trials = Trials(workspace, script, SPACE, baseline)
            made = trials.attempt(point, (point,), None)
        assert running(root) == []
        assert list((root / ".autotune" / "runs").iterdir()) == []
        assert len(trials.effects) == (not made.error.startswith("ended by autotune"))
        assert all(each.layer in (KERNEL, HOOKS) and each.escaped == () for each in trials.effects)
        return made

    yield run
    assert (tree(root), shared_memory.left(shared)) == (before, set())


@pytest.mark.train
@pytest.mark.parametrize(
    ("point", "outcome", "error"),
    [
        (0, Outcome.COMPLETED, ""),
        (1, Outcome.PRUNED, "too slow to win"),
        (HANGS, Outcome.TIMED_OUT, ""),
        (3, Outcome.OUT_OF_MEMORY, "allocate"),
        (4, Outcome.FAILED, "ValueError at train.py:"),
        (5, Outcome.FAILED, "Error at "),
        (HANGS_IN_A_STEP, Outcome.TIMED_OUT, ""),
        (7, Outcome.FAILED, "loader.num_workers should have been 7: the run had 0"),
        (8, Outcome.FAILED, "Error at "),
        (9, Outcome.FAILED, "ModuleNotFoundError"),
    ],
    ids=["good", "slow", "hang", "memory", "step 3", "worker killed", "hang in a step", "other", "disk full", "import"],
)
def test_how_a_trial_ends(attempt, point: int, outcome: Outcome, error: str) -> None:
    made = attempt(point)
    assert (made.outcome, made.number) == (outcome, point)
    assert error in made.error
    assert (made.samples_per_s is not None) == (outcome in (Outcome.COMPLETED, Outcome.PRUNED))
    assert made.ran_out == (OutOfMemoryNote.HOST if outcome is Outcome.OUT_OF_MEMORY else None)


@pytest.mark.parametrize(
    ("facts", "error"),
    [
        ((), "the launched job ended"),
        ((Fact("machine.cpu_name", RUN, "Z80"),), "a machine of another kind: Z80, and unknown to the diagnosis"),
        ((Fact("machine.gpu_name", RUN, "K80"),), "a machine of another kind: K80, and unknown to the diagnosis"),
    ],
    ids=["lost job", "other CPU", "other GPU"],
)
def test_a_lost_job_or_another_machine_is_a_failed_trial(root, monkeypatch, facts, error: str) -> None:
    class Elsewhere:
        def machine(self, show):
            return facts

        def collect(self, *words, **options):
            raise ScriptError("the launched job ended with exit code 1 and without a result")

    monkeypatch.setattr(Workspace, "job", lambda self: nullcontext(Elsewhere()))
    workspace = Workspace(root, root, os.environ, sys.executable, {}, {}, lambda status: None, "srun {script}")
    script = as_diagnosed(root / "train.py", LOADER_LINE)
    made = Trials(workspace, script, SPACE, BaselineRun(0.1, 1.0, 4.0)).attempt(1, (0,), None)
    assert made.outcome is Outcome.FAILED and error in made.error


@pytest.mark.train
def test_a_trial_ends_before_the_host_swaps(attempt, monkeypatch) -> None:
    monkeypatch.setattr(limits, "memory_available", lambda: 1 << 20)
    made = attempt(0)
    assert (made.outcome, made.ran_out) == (Outcome.OUT_OF_MEMORY, OutOfMemoryNote.HOST)
    assert made.error == "ended by autotune: only 1 MiB of the host's memory were left"


@pytest.mark.train
def test_interrupted_in_a_trial_nothing_is_left(attempt, root) -> None:
    def interrupt(status: Status) -> None:
        if status.elapsed_s > 1:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        attempt(0, interrupt)
    assert running(root) == []
    assert list((root / ".autotune" / "runs").iterdir()) == []


def test_a_trial_is_as_long_as_a_window_of_a_verification() -> None:
    request = BaselineRun(0.1, 5.0, None).request(0)
    assert (request.default_steps, request.min_s, request.steps) == (LEAST_WINDOW_STEPS, WINDOW_S, None)
    assert request.what_ifs is False
    assert request.time_limit_s == pytest.approx(3 * 0.1 * (max(LEAST_WINDOW_STEPS, math.ceil(WINDOW_S / 0.1)) + 20))
    assert request.startup_limit_s == 30.0
    assert BaselineRun(0.1, 20.0, None).request(0).startup_limit_s == 80.0


@pytest.mark.parametrize("ready", [0, 32, 512])
def test_no_request_allows_more_than_the_longest_trial(ready) -> None:
    baseline = BaselineRun(0.1, 20.0, None)
    request = baseline.request(ready)
    assert request.startup_limit_s + request.time_limit_s < baseline.longest_s


def test_a_window_is_longer_than_what_workers_have_ready_where_that_is_not_dear() -> None:
    assert BaselineRun(0.01, 5.0, None).request(32).default_steps == 128
    assert BaselineRun(0.2, 5.0, None).request(32).default_steps == 50
    assert BaselineRun(10.0, 5.0, None).request(32).default_steps == LEAST_WINDOW_STEPS


def test_every_window_holds_whole_epochs_where_these_are_short() -> None:
    short = BaselineRun(0.1, 5.0, None, epoch_steps=24)
    assert {short.request(ready).multiple for ready in (0, 32)} == {24}
    assert short.request(0).time_limit_s == pytest.approx(3 * 0.1 * (10 + 23 + 20))
    assert short.trial_s > BaselineRun(0.1, 5.0, None).trial_s
    assert BaselineRun(1.0, 5.0, None, epoch_steps=24).request(0).multiple == 1


def test_ready_batches_are_of_the_candidate(root) -> None:
    script = as_diagnosed(root / "train.py", LOADER_LINE)
    workspace = Workspace(root, root, {}, "no-python", {}, {}, lambda status: None)
    trials = Trials(workspace, script, SPACE, BaselineRun(0.01, 1.0, None))
    assert trials.request(trials.realisation((0,))).default_steps == LEAST_WINDOW_STEPS
    assert trials.request(trials.realisation((4,))).default_steps == 4 * 4 * 2


def test_a_candidate_without_workers_has_nothing_ready(root) -> None:
    script = as_diagnosed(root / "train.py", LOADER_LINE, workers=4)
    workspace = Workspace(root, root, {}, "no-python", {}, {}, lambda status: None)
    space = replace(SPACE, axes=(replace(SPACE.axes[0], current=4),))
    trials = Trials(workspace, script, space, BaselineRun(0.01, 1.0, None))
    assert trials.request(trials.realisation((0,))).default_steps == LEAST_WINDOW_STEPS
    assert trials.request(trials.realisation((4,))).default_steps == 4 * 4 * 2


def test_what_cannot_be_set_is_not_started(root) -> None:
    space = Space((Axis("compile", "run", ({"train.compile": False}, {"train.compile": True}), 0),))
    script = as_diagnosed(root / "train.py", LOADER_LINE)
    workspace = Workspace(root, root, {}, "no-python", {}, {}, lambda status: None)
    made = Trials(workspace, script, space, BaselineRun(0.1, 1.0, None)).attempt(3, (1,), 1.2)
    assert (made.outcome, made.forecast) == (Outcome.FAILED, 1.2)
    assert made.error.startswith("train.compile cannot be set: ")
