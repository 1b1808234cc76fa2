from __future__ import annotations

import pytest

from autotune.model.tuned import Axis, Outcome, Space, Trial
from autotune.tune.excluded import excluded, fits

BATCH = Axis("batch", "loader#train", tuple({"loader.batch_size": size} for size in (1, 2, 4)), 0)
CHECKPOINTING = Axis(
    "checkpointing", "run", tuple({"train.activation_checkpointing": one} for one in (True, False)), 0, is_ordered=False
)
WORKERS = Axis("workers", "loader#train", tuple({"loader.num_workers": count} for count in (0, 2)), 0)
SPACE = Space((BATCH, CHECKPOINTING, WORKERS), memory_limit_bytes=100, is_on_device=True)


def trial(candidate, outcome=Outcome.COMPLETED, memory=None) -> Trial:
    return Trial(1, candidate, {}, outcome, 1.0, memory_bytes=memory)


@pytest.mark.parametrize(
    ("candidate", "expected"),
    [
        ((1, 1, 0), True),
        ((2, 1, 0), True),
        ((1, 0, 0), False),
        ((2, 0, 0), False),
        ((0, 1, 0), False),
        ((1, 1, 1), True),
    ],
)
def test_what_takes_no_less_memory_than_what_ran_out_is_not_tried(candidate, expected) -> None:
    is_excluded = excluded(SPACE, [trial((1, 1, 0), Outcome.OUT_OF_MEMORY)])
    assert is_excluded(candidate) is expected


def test_workers_take_memory_of_the_host_where_it_trains_there() -> None:
    ran_out = [trial((1, 0, 1), Outcome.OUT_OF_MEMORY)]
    on_device, on_host = (excluded(Space(SPACE.axes, is_on_device=one), ran_out) for one in (True, False))
    assert on_device((1, 0, 0))
    assert not on_host((1, 0, 0))


def test_a_trial_that_used_more_than_it_may_rules_out_larger_ones_too() -> None:
    assert excluded(SPACE, [trial((1, 0, 0), memory=101)])((2, 0, 0))
    assert not excluded(SPACE, [trial((1, 0, 0), memory=100)])((2, 0, 0))


def test_the_users_own_fits_however_full_the_memory_is() -> None:
    assert fits(SPACE, trial((0, 0, 0), memory=101))
    assert not fits(SPACE, trial((0, 0, 1), memory=101))
    assert not fits(SPACE, trial((0, 0, 0), Outcome.OUT_OF_MEMORY))
    assert fits(Space(SPACE.axes), trial((0, 0, 1), memory=101))


def test_a_point_is_given_up_when_it_failed_twice_and_never_did_well() -> None:
    failed = [trial((1, 0, 1), Outcome.FAILED), trial((2, 0, 1), Outcome.TIMED_OUT)]
    assert excluded(SPACE, failed)((0, 1, 1))
    assert not excluded(SPACE, failed[:1])((0, 1, 1))
    assert not excluded(SPACE, [*failed, trial((0, 1, 1))])((0, 1, 1))
    assert not excluded(SPACE, failed)((0, 1, 0))
