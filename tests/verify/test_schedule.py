from __future__ import annotations

import pytest
from verify_builders import start

from autotune.errors import UsageError
from autotune.model.verified import AFTER, BEFORE
from autotune.verify.estimate import LEAST_PAIRS, MOST_PAIRS
from autotune.verify.schedule import MOST_STEPS, order, paired, schedule


def test_the_sides_take_turns_and_each_goes_first_equally_often() -> None:
    assert "".join(side[0] for side in order(4)) == "baabbaab"
    assert order(0) == ()
    assert [order(7).count(side) for side in (BEFORE, AFTER)] == [7, 7]


def test_pairs_are_neighbours() -> None:
    starts = [start(side, step_ms=number) for number, side in enumerate(order(4), 1)]
    before, after = paired(starts)
    assert {abs(one.step_ms - other.step_ms) for one, other in zip(before, after, strict=True)} == {1}


def test_a_budget_holds_so_many_pairs() -> None:
    planned = schedule([start(), start(AFTER)], 55.0, spent_s=8.0, loss_steps=None)
    # 3 s, and 3 + 17 steps of 0.1 s, for each side: 10 s a pair.
    assert (planned.steps, planned.warmup) == (17, 3)
    assert planned.order == order(4)
    assert planned.seconds == pytest.approx(4 * 10)


def test_a_large_budget_is_not_spent() -> None:
    assert len(schedule([start(), start(AFTER)], 1e6, 8.0, None).order) == 2 * MOST_PAIRS


def test_the_smallest_useful_budget_is_named_and_is_enough() -> None:
    rehearsed = [start(), start(AFTER)]
    with pytest.raises(UsageError, match=r"20 s are too few") as refused:
        schedule(rehearsed, 20.0, 8.0, None)
    assert refused.value.to_do == "The smallest useful budget is 49 s: --budget 49s"
    assert schedule(rehearsed, 49.0, 8.0, None).order == order(LEAST_PAIRS)


@pytest.mark.parametrize(("ms", "steps"), [(0.001, MOST_STEPS), (1.0, MOST_STEPS), (50.0, 20), (5000.0, 17)])
def test_a_window_is_long_enough_and_has_enough_steps(ms: float, steps: int) -> None:
    assert schedule([start(step_ms=ms), start(AFTER, step_ms=ms / 2)], 1e6, 0.0, None).steps == steps


def test_both_sides_measure_the_same_steps() -> None:
    planned = schedule([start(warmup=3), start(AFTER, warmup=17)], 1e6, 0.0, None)
    assert planned.warmup == 17


@pytest.mark.parametrize(("wanted", "steps"), [(None, 17), (20, 17), (200, 197)])
def test_losses_may_need_more_steps(wanted, steps: int) -> None:
    assert schedule([start(), start(AFTER)], 1e6, 0.0, wanted).steps == steps


def test_the_fixed_part_of_a_start_is_never_negative() -> None:
    assert start().fixed_s == pytest.approx(3.0)
    assert start(wall_s=0.1).fixed_s == 0.0
