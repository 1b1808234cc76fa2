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


def summarised(*, losses=(2.0, 1.0), slower: float = 1.0, samples: dict[str, float] | None = None) -> Verified:
    """Eight starts a side of 40 steps of 10 ms, a fifth of which other work held up."""
    draw, starts, planned = random.Random(5), [], Schedule(order(8), 40, 3, 60.0)
    for number, side in enumerate(planned.order):
        times = [draw.gauss(10, 0.1) + (8.0 if draw.random() < 0.2 else 0.0) for _ in range(40)]
        times = [time * (slower if side == AFTER else 1.0) for time in times]
        own = losses(number) if callable(losses) else losses
        fields = {"times_ms": tuple(times), "losses": own, "samples": (samples or {}).get(side)}
        starts.append(start(side, step_ms=sum(times) / 40, steps=40, **fields))
    return summarise(SIDES, starts, planned, 70.0, ())


def test_starts_that_do_the_same_are_compared_undisturbed() -> None:
    found = summarised(slower=1.1)
    assert found.estimate.is_undisturbed
    assert found.verdict is Verdict.SLOWER
    assert found.step_ms == (pytest.approx(9.9, rel=0.02), pytest.approx(10.9, rel=0.02))
    assert summarised().verdict is Verdict.NO_DIFFERENCE


@pytest.mark.parametrize("losses", [(), (None, 1.0), (float("nan"),), lambda number: (float(number), 1.0)])
def test_starts_that_may_do_other_work_are_compared_by_all_their_steps(losses) -> None:
    found = summarised(losses=losses)
    assert not found.estimate.is_undisturbed
    assert found.step_ms[0] == pytest.approx(11.6, rel=0.05)


def test_what_the_script_changed_all_the_same_is_noted_once() -> None:
    planned = Schedule(order(4), 40, 3, 60.0)
    starts = [start(side, times_ms=(100.0,) * 40, escaped=("/p/log.txt",)) for side in planned.order]
    notes = summarise(SIDES, starts, planned, 70.0, ("first",)).notes
    assert notes == ("first", "the script changed your files during the measurement: /p/log.txt")


def test_that_the_kernel_did_not_hold_the_files_is_noted_once() -> None:
    planned = Schedule(order(4), 40, 3, 60.0)
    starts = [start(side, times_ms=(100.0,) * 40, unheld="no namespaces") for side in planned.order]
    notes = summarise(SIDES, starts, planned, 70.0, ()).notes
    assert notes == ("Python hooks isolated the script's writes, because the kernel could not (no namespaces)",)


@pytest.mark.parametrize("share", [0.0, 0.6])
def test_pairs_that_agree_beside_other_work_may_do_so_by_luck(share: float) -> None:
    planned = Schedule(order(4), 40, 3, 60.0)
    fields = {"times_ms": (100.0,) * 40, "losses": (1.0,), "others_share": share, "busy_share": 1.0, "cpus": 1.0}
    found = summarise(SIDES, [start(side, **fields) for side in planned.order], planned, 70.0, ())
    assert (found.estimate.high / found.estimate.low > 1.06) == (share > 0)


def test_the_clock_of_all_starts_is_the_one_that_is_told() -> None:
    planned = Schedule(order(4), 40, 3, 60.0)
    of = {BEFORE: {"cpu_ms": (60.0,) * 40, "asleep_share": 0.0}, AFTER: {"cpu_ms": (40.0,) * 40, "asleep_share": 0.0}}
    starts = [start(side, times_ms=(100.0,) * 40, losses=(1.0,), **of[side]) for side in planned.order]
    found = summarise(SIDES, starts, planned, 70.0, (), [starts[0], starts[1]], 1)
    assert (found.clock, found.verdict, found.step_ms) == (Clock.CPU, Verdict.FASTER, (60.0, 40.0))
    assert "CPU time of the training thread" in found.worth
    asleep = summarise(SIDES, starts, planned, 70.0, (), [start(), start(AFTER)], 1)
    assert (asleep.clock, asleep.verdict) == (Clock.WALL, Verdict.NO_DIFFERENCE)
    assert is_conclusive(starts, planned, (), 1)


def test_pairs_that_scatter_do_not_tell() -> None:
    planned = Schedule(order(4), 40, 3, 60.0)
    starts = [start(side, step_ms=100.0 + 20 * at) for at, side in enumerate(planned.order)]
    assert not is_conclusive(starts, planned, (), 1)


def test_steps_of_other_sizes_are_compared_by_sample() -> None:
    found = summarised(slower=2.2, samples={BEFORE: 32.0, AFTER: 64.0})
    assert found.is_per_sample
    assert found.estimate.is_undisturbed
    assert found.estimate.speedup == pytest.approx(1 / 1.1, rel=0.01)
    assert found.step_ms == (pytest.approx(9.9, rel=0.02), pytest.approx(21.8, rel=0.02))
