"""What averaging costs is read from steps beside steps without it, of all ranks."""

from __future__ import annotations

import pytest
from build import MS, derive, facts, recording, steps, what_if

NUM_STEPS = 2
"""In the window, after one of warm-up."""


def turn(as_is, alone):
    return (
        what_if("replay_changed", {}, step_ns=[as_is * MS] * 4, update_ns=[0] * 4),
        what_if("replay_changed", {"averaging": False}, step_ns=[alone * MS] * 4, update_ns=[0] * 4),
    )


def rank(number, *turns, averaged=NUM_STEPS):
    return recording(
        steps(1 + NUM_STEPS),
        process={"rank": number, "world_size": 2, "local_world_size": 2},
        torch_state={"averaged_backwards": averaged},
        what_ifs=sum(turns, ()),
    )


def shares(*ranks):
    found = facts(derive(ranks))
    return found.get("ranks.early_averaging_share"), found.get("ranks.last_averaging_share")


STEP_MS = facts(derive([recording(steps(1 + NUM_STEPS))]))["step.median_ms"]


def test_the_slowest_rank_and_the_round_in_which_it_costs_most_count():
    first = rank(0, turn(STEP_MS, 0.4 * STEP_MS), turn(STEP_MS, 0.2 * STEP_MS))
    second = rank(1, turn(STEP_MS, 0.5 * STEP_MS), turn(STEP_MS, 0.7 * STEP_MS))
    assert shares(first, second) == (0.0, pytest.approx(0.5))


def test_with_several_micro_batches_the_last_one_has_its_part():
    both = [rank(number, turn(STEP_MS, 0.2 * STEP_MS), averaged=4 * NUM_STEPS) for number in (0, 1)]
    assert shares(*both) == (pytest.approx(0.6), pytest.approx(0.2))


def test_replays_leave_the_data_wait_out_of_the_share():
    """Half of the step is no part of a replay; a machine that got slower meanwhile adds nothing."""
    half = [rank(number, turn(0.5 * STEP_MS, 0.25 * STEP_MS)) for number in (0, 1)]
    slower = [rank(number, turn(2 * STEP_MS, STEP_MS)) for number in (0, 1)]
    assert shares(*half) == (0.0, pytest.approx(0.25))
    assert shares(*slower) == (0.0, pytest.approx(0.5))


def test_steps_that_are_no_shorter_without_it_say_that_it_costs_nothing():
    assert shares(*(rank(number, turn(STEP_MS, 1.1 * STEP_MS)) for number in (0, 1))) == (0.0, 0.0)


@pytest.mark.parametrize(
    "ranks",
    [
        [rank(0, turn(40, 20))],
        [rank(0, turn(40, 20)), rank(1)],
        [rank(0, turn(40, 20), turn(40, 20)), rank(1, turn(40, 20))],
        [rank(number, turn(40, 20), averaged=0) for number in (0, 1)],
    ],
    ids=["one rank", "a rank that was not asked", "a rank that ended earlier", "no backward was averaged"],
)
def test_it_is_unknown_unless_all_ranks_tell(ranks):
    assert shares(*ranks) == (None, None)
