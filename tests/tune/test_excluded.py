from __future__ import annotations

import pytest
from msgspec.structs import replace

from autotune.model.tuned import Axis, Outcome, OutOfMemoryNote, SearchTrial, Space
from autotune.tune.excluded import excluded, fits

BATCH = Axis("batch", "loader#train", tuple({"loader.batch_size": size} for size in (1, 2, 4)), 0)
CHECKPOINTING = Axis(
    "checkpointing", "run", tuple({"train.activation_checkpointing": one} for one in (True, False)), 0, is_ordered=False
)
WORKERS = Axis("workers", "loader#train", tuple({"loader.num_workers": count} for count in (0, 2)), 0)
SPACE = Space((BATCH, CHECKPOINTING, WORKERS), memory_limit_bytes=100, is_on_device=True)


def trial(candidate, outcome=Outcome.COMPLETED, memory=None, ran_out=None) -> SearchTrial:
    return SearchTrial(1, candidate, outcome, 1.0, memory_bytes=memory, ran_out=ran_out)


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


@pytest.mark.parametrize("on_device", [True, False])
@pytest.mark.parametrize("ran_out", [OutOfMemoryNote.HOST, OutOfMemoryNote.DEVICE, None])
def test_a_shortage_rules_out_by_what_takes_of_that_memory(on_device: bool, ran_out: OutOfMemoryNote | None) -> None:
    """On a device the host's memory holds the workers, the device's the micro-batches; on the CPU one holds both."""
    known = [trial((1, 0, 1), Outcome.OUT_OF_MEMORY, ran_out=ran_out)]
    is_excluded = excluded(Space(SPACE.axes, is_on_device=on_device), known)
    fewer_workers, smaller_batch = is_excluded((2, 0, 0)), is_excluded((0, 0, 1))
    if not on_device:
        assert (fewer_workers, smaller_batch) == (False, False)
    elif ran_out is OutOfMemoryNote.HOST:
        assert (fewer_workers, smaller_batch) == (False, True)
    else:
        assert (fewer_workers, smaller_batch) == (True, False)
    assert is_excluded((2, 0, 1))


def test_a_micro_batch_that_outgrows_the_memory_is_not_tried() -> None:
    sizes = Axis("batch", "loader#train", tuple({"loader.batch_size": size} for size in (1, 2, 4, 8)), 0)
    space = Space((sizes, CHECKPOINTING, WORKERS), memory_limit_bytes=100, is_on_device=True)
    grown = [trial((0, 0, 0), memory=20), trial((1, 0, 1), memory=40)]
    is_excluded = excluded(space, grown)
    assert not is_excluded((2, 0, 0))
    assert is_excluded((3, 0, 0))
    assert not is_excluded((3, 1, 0))
    assert not excluded(space, grown[:1])((3, 0, 0))
    assert not excluded(replace(space, memory_limit_bytes=None), grown)((3, 0, 0))
    of_the_host = excluded(replace(space, is_on_device=False), grown)
    assert not of_the_host((3, 0, 0))


def test_memory_that_does_not_grow_rules_nothing_out() -> None:
    flat = [trial((0, 0, 0), memory=90), trial((1, 0, 0), memory=89), trial((1, 0, 0), memory=88)]
    assert not excluded(SPACE, flat)((2, 0, 0))


def test_a_trial_that_used_more_than_it_may_rules_out_larger_ones_too() -> None:
    assert excluded(SPACE, [trial((1, 0, 0), memory=101)])((2, 0, 0))
    assert not excluded(SPACE, [trial((1, 0, 0), memory=100)])((2, 0, 0))


def test_the_users_own_fits_however_full_the_memory_is() -> None:
    assert fits(SPACE, [], trial((0, 0, 0), memory=101))
    assert not fits(SPACE, [], trial((0, 0, 1), memory=101))
    assert not fits(SPACE, [], trial((0, 0, 0), Outcome.OUT_OF_MEMORY))
    assert fits(Space(SPACE.axes), [], trial((0, 0, 1), memory=101))


def test_where_the_users_own_leaves_too_little_what_takes_no_more_fits_too() -> None:
    own, workers, larger = (trial(one, memory=103) for one in ((0, 0, 0), (0, 0, 1), (1, 0, 0)))
    known = [own, workers, larger]
    assert [fits(SPACE, known, one) for one in known] == [True, True, False]
    is_excluded = excluded(SPACE, known)
    assert (is_excluded((0, 0, 1)), is_excluded((1, 0, 1)), is_excluded((2, 0, 0))) == (False, True, True)
    on_host = replace(SPACE, is_on_device=False)
    assert not fits(on_host, known, workers)
    assert not fits(SPACE, [trial((0, 0, 0), memory=50), workers], workers)


def test_what_needs_no_more_than_what_went_well_rules_nothing_out() -> None:
    """Workers need nothing of a device's memory: that it was too little was something else."""
    for lost in (trial((0, 0, 1), memory=101), trial((0, 0, 1), Outcome.OUT_OF_MEMORY)):
        assert excluded(SPACE, [lost])((1, 0, 0))
        assert not excluded(SPACE, [trial((0, 0, 0), memory=50), lost])((1, 0, 0))


def test_a_point_is_given_up_when_it_failed_twice_and_never_did_well() -> None:
    failed = [trial((1, 0, 1), Outcome.FAILED), trial((2, 0, 1), Outcome.TIMED_OUT)]
    assert excluded(SPACE, failed)((0, 1, 1))
    assert not excluded(SPACE, failed[:1])((0, 1, 1))
    assert not excluded(SPACE, [*failed, trial((0, 1, 1))])((0, 1, 1))
    assert not excluded(SPACE, failed)((0, 1, 0))
