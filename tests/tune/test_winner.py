from __future__ import annotations

import pytest

from autotune.model.tuned import Axis, Outcome, OutOfMemoryNote, SearchTrial, Space
from autotune.tune.winner import choose, suspect, taken_back, without_manual

LOADERS = (
    {"loader.num_workers": 0},
    {"loader.num_workers": 2},
    {"loader.num_workers": 2, "loader.prefetch_factor": 8},
)
BATCHES = (
    {"loader.batch_size": 8, "train.accumulation_steps": 4},
    {"loader.batch_size": 32, "train.accumulation_steps": 1},
)
WORKERS = Axis("workers", "loader#train", LOADERS, 0)
BATCH = Axis("batch", "loader#train", BATCHES, 0)
THREADS = Axis("threads", "run", ({"train.num_threads": 1}, {"train.num_threads": 2}), 1)
SPACE = Space((WORKERS, BATCH, THREADS))
OWN = (0, 0, 1)


def unknown(settings) -> None:
    return None


def speeds(workers: float = 0.0, prefetch: float = 0.0, batch: float = 0.0, threads: float = 0.0):
    def speed(one) -> float:
        return 10.0 + workers * (one[0] > 0) + prefetch * (one[0] == 2) + batch * one[1] + threads * (1 - one[2])

    return speed


def trial(number: int, one, speed) -> SearchTrial:
    return SearchTrial(number, one, Outcome.COMPLETED, 1.0, speed(one))


def by_hand_are(*names: str):
    return lambda one: frozenset(SPACE.changes(one)) & set(names)


def chosen(speed, *names: str, known=(OWN, (2, 1, 0)), fixed=(), also=(), can_try: bool = True):
    """The settings that are proven, the fastest, and what was tried, where these names are by hand."""
    tried = []

    def attempt(one) -> SearchTrial | None:
        tried.append(one)
        return trial(9, one, speed) if can_try else None

    trials = [trial(number, one, speed) for number, one in enumerate(known)]
    found = choose(SPACE, unknown, trials, attempt, by_hand_are(*names), fixed, also)
    return SPACE.changes(found.writable.candidate), SPACE.changes(found.fastest.candidate), tried


def test_where_all_can_be_written_the_fastest_is_confirmed_without_what_brings_nothing() -> None:
    least, fastest, _ = chosen(speeds(workers=5.0, batch=5.0))
    assert least == fastest == {"loader.num_workers": 2, **BATCHES[1]}


def test_what_is_by_hand_is_left_out_of_what_is_confirmed() -> None:
    least, fastest, tried = chosen(speeds(workers=5.0, batch=5.0, threads=5.0), "train.num_threads")
    assert least == {"loader.num_workers": 2, **BATCHES[1]}
    assert fastest == {**least, "train.num_threads": 1}
    assert (1, 1, 1) in tried


def test_without_time_for_a_trial_what_was_never_tried_is_not_chosen() -> None:
    speed = speeds(workers=50.0, prefetch=1.0, batch=5.0, threads=5.0)
    fastest = SPACE.changes((2, 1, 0))
    assert chosen(speed, "train.num_threads", can_try=False)[:2] == (fastest, fastest)
    least, found, tried = chosen(speed, "train.num_threads", known=(OWN, (2, 1, 0), (1, 0, 1)), can_try=False)
    assert (least, found) == ({"loader.num_workers": 2}, fastest)
    assert (2, 1, 1) in tried


def test_without_time_for_what_is_left_of_what_was_taken_back_it_is_what_was_tried() -> None:
    least, _, tried = chosen(speeds(workers=5.0, batch=5.0), fixed={"batch"}, also=[(1, 0, 1)], can_try=False)
    assert least == {}
    assert (1, 0, 1) in tried


def test_what_fails_in_the_trial_that_it_needs_is_not_chosen() -> None:
    trials = [trial(number, one, speeds(workers=50.0, threads=5.0)) for number, one in enumerate((OWN, (2, 0, 0)))]
    names = by_hand_are("train.num_threads")
    found = choose(SPACE, unknown, trials, lambda one: SearchTrial(9, one, Outcome.FAILED, 1.0), names)
    assert found.writable.candidate == (2, 0, 0)


def test_where_only_a_hand_makes_it_faster_that_is_confirmed() -> None:
    least, fastest, _ = chosen(speeds(threads=5.0), "train.num_threads")
    assert least == fastest == {"train.num_threads": 1}


def test_a_faster_one_that_can_be_written_is_better_than_what_is_left_of_the_fastest() -> None:
    def speed(one) -> float:
        return {OWN: 10.0, (2, 1, 0): 30.0, (0, 1, 1): 18.0}.get(one, 11.0)

    least, fastest, _ = chosen(speed, "train.num_threads", "loader.num_workers", known=(OWN, (2, 1, 0), (0, 1, 1)))
    assert least == BATCHES[1]
    assert "train.num_threads" in fastest


def test_fixed_axes_stay_as_the_user_has_them() -> None:
    least, fastest, tried = chosen(speeds(workers=5.0, batch=5.0), fixed={"batch"}, also=[(1, 0, 1)])
    assert least == fastest == {"loader.num_workers": 2}
    assert (1, 0, 1) in tried


def test_what_ran_out_of_memory_is_not_confirmed() -> None:
    known = [trial(0, OWN, speeds()), trial(1, (1, 0, 0), speeds(threads=9.0))]
    ran_out = SearchTrial(2, (1, 0, 1), Outcome.OUT_OF_MEMORY, 1.0, ran_out=OutOfMemoryNote.HOST)
    names = by_hand_are("train.num_threads")
    found = choose(SPACE, unknown, [*known, ran_out], lambda one: None, names)
    assert found.writable == found.fastest
    assert found.writable.candidate == (1, 0, 0)


@pytest.mark.parametrize(
    ("names", "left"),
    [
        ((), (2, 1, 0)),
        (("loader.prefetch_factor",), (1, 1, 0)),
        (("loader.num_workers",), (0, 1, 0)),
        (("train.accumulation_steps", "loader.batch_size"), (2, 0, 0)),
        (("train.num_threads", "loader.num_workers"), (0, 1, 1)),
    ],
)
def test_what_is_written_keeps_all_else(names, left) -> None:
    assert without_manual(SPACE, (2, 1, 0), by_hand_are(*names)) == left


def test_what_is_by_hand_once_another_is_gone_goes_too() -> None:
    def by_hand(one) -> frozenset[str]:
        names = {"train.num_threads"} if one[2] == 0 else {"loader.num_workers"}
        return frozenset(SPACE.changes(one)) & names

    assert without_manual(SPACE, (1, 1, 0), by_hand) == (0, 1, 1)


def test_what_touches_learning_is_suspected_first() -> None:
    fused = Axis("fused", "optimizer#0", ({"optimizer.fused": False}, {"optimizer.fused": True}), 0)
    space = Space((WORKERS, fused, BATCH))
    assert suspect(space, (1, 1, 1)).name == "batch"
    assert suspect(space, (1, 1, 0)).name == "fused"
    assert suspect(space, (1, 0, 0)).name == "workers"
    assert taken_back(space, (1, 1, 1), {"batch", "fused"}) == (1, 0, 0)
