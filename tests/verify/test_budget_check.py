"""A budget is judged before anything is run."""

from __future__ import annotations

import json
import re

import pytest
from verify_builders import start

from autotune.collect import artefacts
from autotune.errors import UsageError
from autotune.model.verified import AFTER, SIDES
from autotune.verify import budget_check
from autotune.verify.schedule import FreeResources, schedule

SECOND = 1_000_000_000


def refused(budget_s: float, seen, loss_steps=None) -> float | None:
    """The budget that would suffice; None where this one may."""
    try:
        budget_check.refuse(budget_s, seen, loss_steps, "by the diagnosis 1")
    except UsageError as error:
        assert error.where == "--budget"
        return float(re.search(r"--budget (\d+)s", error.to_do)[1])
    return None


def test_a_budget_that_ten_starts_exceed_is_refused_and_what_suffices_is_named() -> None:
    slow = start(step_ms=1000.0, wall_s=60.0)
    assert refused(60.0, slow) > 60.0
    with pytest.raises(UsageError, match=r"60 s cannot suffice: a run takes about 67 s, by the diagnosis 1, and"):
        budget_check.refuse(60.0, slow, None, "by the diagnosis 1")


@pytest.mark.parametrize("faster", [1.0, 4.0, 100.0])
@pytest.mark.parametrize("may_be_stopped", [False, True])
def test_what_the_schedule_would_hold_is_never_refused(faster: float, may_be_stopped: bool) -> None:
    given = {"may_be_stopped": may_be_stopped, "memory_bytes": 1, "wait_s": 0.0}
    sides = [start(**given), start(AFTER, 100.0 / faster, wall_s=3.0 + 13 * 0.1 / faster, **given)]
    spent_s = sum(one.fixed_s + 9 * one.step_ms / 1000 for one in sides)
    for budget_s in range(1, 60):
        try:
            schedule(sides, budget_s, spent_s, None, FreeResources(1e9, 2.0))
        except UsageError:
            continue
        assert refused(budget_s, sides[0]) is None


@pytest.mark.parametrize("slower", [0.1, 1.0, 2.0])
@pytest.mark.parametrize("epoch_steps", [None, 33])
@pytest.mark.parametrize(("startup_s", "step_ms"), [(11.2, 461.6), (18.0, 1072.0), (0.5, 20.0), (0.0, 5000.0)])
def test_the_budget_that_is_named_is_not_refused_at_the_second_try(startup_s, step_ms, epoch_steps, slower) -> None:
    """Nor where a busy machine makes starts twice as slow by then: by the first rehearsal, or after both of them."""
    seen = start(step_ms=step_ms, wall_s=startup_s + 13 * step_ms / 1000, epoch_steps=epoch_steps)
    named_s = refused(0.1, seen)
    assert refused(named_s, seen) is None
    wall_s = slower * (startup_s + 13 * step_ms / 1000)
    now = [start(side, slower * step_ms, wall_s=wall_s, epoch_steps=epoch_steps) for side in SIDES]
    assert refused(named_s, now[0]) is None
    spent_s = sum(one.fixed_s + 9 * one.step_ms / 1000 for one in now)
    assert schedule(now, named_s, spent_s, None).order


def test_what_the_figures_say_cannot_suffice_is_refused() -> None:
    """A start-up of 11.7 s and steps of 0.46 s: rehearsals and two pairs in turns need 74 s."""
    seen = start(step_ms=461.6, wall_s=11.7 + 32 * 0.4616 + 0.5, steps=30, may_be_stopped=True)
    assert refused(60.0, seen) is not None
    assert refused(75.0, seen) is None


def test_losses_that_need_many_steps_cost_them() -> None:
    assert refused(40.0, start()) is None
    assert refused(40.0, start(), 500) > 500 * 0.1 * 6


def recorded(root, *, startup_s=8.0, wall_s=90.0, window=True, device="cpu"):
    """A run folder as a diagnosis leaves it: steps of 2 s after a first one."""
    run = artefacts.new_run(root)
    ends = [SECOND * (8 + 2 * at) for at in range(14)]
    row = {
        "warmup_steps": 3, "steps": 11, "start_ns": ends[2], "end_ns": ends[-1], "step_ends_ns": ends,
        "steps_by": "optimizer", "ended_by": "steps",
    }  # fmt: skip
    about = ("name", "capability", "index")
    names = ("events", "fetches", "batches", "samples", "loaders", "optimizers", "models", "calls", "what_ifs")
    empty: dict[str, list] = {name: [] for name in names}
    unknown = dict.fromkeys(("error", "io", "compile", "kernels"))
    process = {
        "pid": 1, "ppid": 1, "group": 1, "rank": 0, "local_rank": None, "world_size": 1, "local_world_size": None,
        "argv": ["train.py"], "executable": "python", "python": [3, 11, 7], "main_file": "train.py", "num_threads": 1,
    }  # fmt: skip
    document = {
        "schema": 1, "outcome": "completed", "origin_ns": 0, "process": process, "software": {},
        "device": {"type": device, **dict.fromkeys(about)}, "window": row if window else None, "sampler_interval_ns": 1,
        "frameworks": {}, "torch_state": {}, "environment": {}, "memory": {},
        "side_effects": {"blocked": [], "not_isolated": []},
        "overhead": {"events": 0, "event_ns": 0, "sampler_ns": 0, "setup_ns": 0}, **empty, **unknown,
    }  # fmt: skip
    (run / "recording-1.json").write_text(json.dumps(document))
    (run / "run.json").write_text(json.dumps({"startup_s": startup_s, "wall_s": wall_s}))
    return run.name


def test_a_diagnosis_tells_what_a_start_costs(tmp_path) -> None:
    run = recorded(tmp_path)
    seen = budget_check.newest(tmp_path, [run])
    assert (seen.run, seen.wall_s) == (run, 90.0)
    assert (seen.start.step_ms, seen.start.warmup, seen.start.may_be_stopped) == (2000.0, 3, True)
    assert seen.start.fixed_s == pytest.approx(8.0 - 2.0 + budget_check.END_S)
    assert refused(60.0, seen.start) is not None
    assert budget_check.newest(tmp_path, [recorded(tmp_path, device="cuda")]).start.may_be_stopped is False


@pytest.mark.parametrize("fields", [{"startup_s": None}, {"window": False}])
def test_a_diagnosis_that_tells_too_little_judges_nothing(tmp_path, fields) -> None:
    older, newer = recorded(tmp_path), recorded(tmp_path, **fields)
    assert budget_check.newest(tmp_path, [newer]) is None
    assert budget_check.newest(tmp_path, [newer, older]).run == older


def test_a_run_that_is_gone_judges_nothing(tmp_path) -> None:
    assert budget_check.newest(tmp_path, ["", "20260101-000000-000000"]) is None
