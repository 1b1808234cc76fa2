"""Which estimate a verification rests on."""

from __future__ import annotations

import random

import pytest
from verify_builders import start

from autotune.model.verified import AFTER, BEFORE, Clock, Schedule, Verdict, Verified
from autotune.verify.schedule import order
from autotune.verify.sides import Sides
from autotune.verify.summary import is_conclusive, summarise

SIDES = Sides("x", {}, {})


def summarised(*, slower: float = 1.0, samples: dict[str, float] | None = None) -> Verified:
    """Eight runs a side of 40 steps of about 10 ms; every tenth step takes five times as long."""
    draw, starts, planned = random.Random(5), [], Schedule(order(8), 40, 3, 60.0)
    for side in planned.order:
        times = [draw.gauss(10, 0.1) * (5 if step % 10 == 9 else 1) for step in range(40)]
        times = [time * (slower if side == AFTER else 1.0) for time in times]
        fields = {"losses": (2.0, 1.0), "samples": (samples or {}).get(side)}
        starts.append(start(side, step_ms=sum(times) / 40, steps=40, **fields))
    return summarise(SIDES, starts, planned, 70.0, ())


def test_runs_are_compared_by_all_their_steps() -> None:
    found = summarised(slower=1.1)
    assert found.verdict is Verdict.SLOWER
    assert found.estimate.speedup == pytest.approx(1 / 1.1, rel=0.01)
    assert found.step_ms == (pytest.approx(14.0, rel=0.02), pytest.approx(15.4, rel=0.02))
    assert summarised().verdict is Verdict.NO_DIFFERENCE


def test_what_the_script_changed_all_the_same_is_noted_once() -> None:
    planned = Schedule(order(4), 40, 3, 60.0)
    starts = [start(side, escaped=("/p/log.txt",)) for side in planned.order]
    notes = summarise(SIDES, starts, planned, 70.0, ("first",)).notes
    assert notes == ("first", "the script changed your files during the measurement: /p/log.txt")


def test_that_the_kernel_did_not_hold_the_files_is_noted_once() -> None:
    planned = Schedule(order(4), 40, 3, 60.0)
    starts = [start(side, kernel_refusal="no namespaces") for side in planned.order]
    notes = summarise(SIDES, starts, planned, 70.0, ()).notes
    assert notes == ("Python hooks isolated the script's writes, because the kernel could not (no namespaces)",)


def test_the_clock_of_all_starts_is_the_one_that_is_told() -> None:
    planned = Schedule(order(4), 40, 3, 60.0)
    of = {BEFORE: {"cpu_ms": 60.0, "asleep_share": 0.0}, AFTER: {"cpu_ms": 40.0, "asleep_share": 0.0}}
    starts = [start(side, losses=(1.0,), **of[side]) for side in planned.order]
    found = summarise(SIDES, starts, planned, 70.0, (), [starts[0], starts[1]], 1)
    assert (found.clock, found.verdict, found.step_ms) == (Clock.CPU, Verdict.FASTER, (60.0, 40.0))
    assert "CPU time of the training thread" in found.worth
    asleep = summarise(SIDES, starts, planned, 70.0, (), [start(), start(AFTER)], 1)
    assert (asleep.clock, asleep.verdict) == (Clock.WALL, Verdict.NO_DIFFERENCE)
    assert is_conclusive(starts, (), 1)


def test_pairs_that_scatter_do_not_tell() -> None:
    planned = Schedule(order(4), 40, 3, 60.0)
    starts = [start(side, step_ms=100.0 + 20 * at) for at, side in enumerate(planned.order)]
    assert not is_conclusive(starts, (), 1)


def test_steps_of_other_sizes_are_compared_by_sample() -> None:
    found = summarised(slower=2.2, samples={BEFORE: 32.0, AFTER: 64.0})
    assert found.is_per_sample
    assert found.estimate.speedup == pytest.approx(1 / 1.1, rel=0.01)
    assert found.step_ms == (pytest.approx(14.0, rel=0.02), pytest.approx(30.8, rel=0.02))
