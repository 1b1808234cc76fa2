from __future__ import annotations

import pytest
from verify_builders import start

from autotune.errors import UsageError
from autotune.model.verified import AFTER, BEFORE, SIDES
from autotune.verify.schedule import FreeResources, least_s, more, order, paired, schedule
from autotune.verify.thresholds import FEWEST_PAIRS, LEAST_PAIRS, MOST_PAIRS, MOST_WINDOW_STEPS, TURN_S


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


def test_a_budget_that_suffices_is_named_and_is_enough() -> None:
    rehearsed = [start(), start(AFTER)]
    with pytest.raises(UsageError, match=r"20 s are too few") as refused:
        schedule(rehearsed, 20.0, 8.0, None)
    assert refused.value.to_do == "This suffices: --budget 56s"
    assert schedule(rehearsed, 56.0, 8.0, None).order == order(4)
    slower = [start(side, 200.0, wall_s=2 * (3.0 + 1.3)) for side in SIDES]
    assert schedule(slower, 56.0, 16.0, None).order == order(FEWEST_PAIRS)


def test_two_pairs_are_planned_where_a_budget_holds_no_more() -> None:
    assert schedule([start(), start(AFTER)], 28.0, 8.0, None).order == order(FEWEST_PAIRS)
    with pytest.raises(UsageError, match="fewer than 2 runs per side"):
        schedule([start(), start(AFTER)], 27.9, 8.0, None)


@pytest.mark.parametrize(("made", "budget_s", "sides"), [(4, 25.0, "baab"), (5, 15.0, "ab"), (0, 1e6, "baab" * 5)])
def test_more_pairs_go_on_in_turns(made: int, budget_s: float, sides: str) -> None:
    planned = schedule([start(), start(AFTER)], 1e6, 8.0, None)
    found = more(planned, made, budget_s, 0.0)
    assert "".join(side[0] for side in found.order) == sides
    assert (found.steps, found.warmup, found.pair_s) == (17, 3, pytest.approx(10.0))


@pytest.mark.parametrize(("made", "least"), [(0, 43), (1, 23), (5, 23)])
def test_a_budget_that_holds_no_pair_more_is_refused(made: int, least: int) -> None:
    planned = schedule([start(), start(AFTER)], 1e6, 8.0, None)
    with pytest.raises(UsageError, match=f"{made} pairs exist") as refused:
        more(planned, made, 3.0 + planned.pair_s * max(1, 2 - made) - 0.1, spent_s=3.0)
    assert refused.value.to_do == f"This suffices: --budget {least}s"
    assert more(planned, made, least, spent_s=3.0).order


@pytest.mark.parametrize(
    ("ms", "steps"), [(0.001, MOST_WINDOW_STEPS), (1.0, MOST_WINDOW_STEPS), (50.0, 20), (5000.0, 17)]
)
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


def stoppable(**fields):
    given = {"may_be_stopped": True, "memory_bytes": 1000, "wait_s": 0.0, **fields}
    return [start(side, **given) for side in (BEFORE, AFTER)]


FREE = FreeResources(4000, 2.0)


@pytest.mark.parametrize(
    ("rehearsed", "free", "turns"),
    [
        (stoppable(), FREE, (2.4, TURN_S)),
        (stoppable(), FreeResources(4000, 1.5), (0.0, TURN_S)),
        (stoppable(wait_s=0.01), FREE, (2.4, 0.5)),
        (stoppable(wait_s=0.03), FREE, None),
        (stoppable(wait_s=None), FREE, None),
        (stoppable(throttled_share=0.005), FREE, (2.4, TURN_S)),
        (stoppable(throttled_share=0.1), FREE, None),
        (stoppable(), FreeResources(2500, 2.0), None),
        (stoppable(), None, None),
        (stoppable(memory_bytes=None), FREE, None),
        (stoppable(may_be_stopped=False), FREE, None),
        ([stoppable()[0], start(AFTER, memory_bytes=1000, wait_s=0.0)], FREE, None),
    ],
)
def test_sides_take_turns_where_they_may_and_the_machine_holds_both(rehearsed, free, turns) -> None:
    found = schedule(rehearsed, 100.0, 8.0, None, free).turns
    assert (found and (found.together_s, found.turn_s)) == (turns and pytest.approx(turns))


def test_what_is_left_of_a_budget_makes_the_windows_of_turns_longer() -> None:
    # 3 s, of which 2.4 s are of both at once, and 3 + 17 steps of 0.1 s, for each side: 7.6 s a pair.
    least, longer, most = (schedule(stoppable(), budget_s, 8.0, None, FREE) for budget_s in (33.0, 36.0, 1e6))
    assert (least.order, least.steps) == (order(LEAST_PAIRS), 17)
    assert (longer.order, longer.steps) == (order(LEAST_PAIRS), 21)
    assert longer.seconds <= 28.0 / 1.1
    assert (most.order, most.steps) == (order(MOST_PAIRS), 30)
    assert least_s(stoppable(), None) == pytest.approx(30.0)


@pytest.mark.parametrize(("epoch_steps", "steps"), [(None, 17), (24, 24), (5, 20), (50, 50), (51, 17)])
def test_a_window_holds_whole_epochs_where_these_are_short(epoch_steps, steps: int) -> None:
    sides = [start(epoch_steps=epoch_steps), start(AFTER, epoch_steps=epoch_steps)]
    assert schedule(sides, 1e6, 0.0, None).steps == steps
    assert schedule(stoppable(epoch_steps=24), 1e6, 0.0, None, FREE).steps == 24
    assert schedule(stoppable(epoch_steps=9), 1e6, 0.0, None, FREE).steps == 27
