from __future__ import annotations

import pytest
from msgspec.structs import replace

from autotune.model.tuned import Axis, Outcome, SearchTrial, Space
from autotune.tune.ablation import ablate, simpler_than

LOADERS = (
    {"loader.num_workers": 0},
    {"loader.num_workers": 2},
    {"loader.num_workers": 2, "loader.prefetch_factor": 8},
)
WORKERS = Axis("workers", "loader#train", LOADERS, 0)
FUSED = Axis("fused", "optimizer#0", ({"optimizer.fused": False}, {"optimizer.fused": True}), 0, is_ordered=False)
SPACE = Space((WORKERS, FUSED))
OWN, WINNER = (0, 0), (2, 1)


def unknown(settings) -> None:
    return None


def trials(**speeds) -> list[SearchTrial]:
    """Trials by name: own=..., winner=...; twice as fast unless told."""
    found = {OWN: speeds.get("own", 10.0), WINNER: speeds.get("winner", 20.0)}
    return [SearchTrial(n, one, Outcome.COMPLETED, 1.0, speed) for n, (one, speed) in enumerate(found.items())]


def trying(speeds):
    """What completes at these speeds by candidate, in no memory that is known."""
    return lambda candidate: SearchTrial(9, candidate, Outcome.COMPLETED, 1.0, speeds[candidate])


def test_simpler_candidates_take_changes_of_one_axis_back() -> None:
    assert list(simpler_than(SPACE, WINNER)) == [(0, 1), (1, 1), (2, 0)]
    assert list(simpler_than(SPACE, (1, 0))) == [(0, 0)]
    assert list(simpler_than(SPACE, OWN)) == []


def test_what_brings_nothing_is_dropped_one_after_the_other() -> None:
    speeds = {(0, 1): 10.0, (1, 1): 20.1, (2, 0): 19.9, (1, 0): 19.8}
    found = ablate(SPACE, unknown, WINNER, trials(), trying(speeds))
    assert found.candidate == (1, 0)
    assert [one.setting for one in found.dropped] == ["loader.prefetch_factor", "optimizer.fused"]
    assert found.dropped[0].why == "it brings nothing: less than the noise of a trial (3.0 %)"
    assert found.dropped[1].why.startswith("it brings 1.")
    assert found.brings == {"loader.num_workers": pytest.approx(0.5, abs=0.02)}


def test_what_brings_something_is_kept_and_says_how_much() -> None:
    speeds = {(0, 1): 11.0, (1, 1): 19.0, (2, 0): 18.0}
    found = ablate(SPACE, unknown, WINNER, trials(), trying(speeds))
    assert (found.candidate, found.dropped) == (WINNER, ())
    assert found.brings["optimizer.fused"] == pytest.approx(0.1, abs=0.02)
    assert found.brings["loader.num_workers"] == found.brings["loader.prefetch_factor"] > 0.3
    assert "optimizer.fused" in found.measured


def test_what_cannot_be_tried_is_kept() -> None:
    found = ablate(SPACE, unknown, WINNER, trials(), lambda candidate: None)
    assert (found.candidate, found.dropped) == (WINNER, ())
    assert set(found.brings) == {"loader.num_workers", "loader.prefetch_factor", "optimizer.fused"}
    assert found.measured == frozenset()


def test_only_what_may_be_as_fast_is_tried_and_only_once() -> None:
    tried = []
    known = [*trials(), SearchTrial(2, (1, 1), Outcome.COMPLETED, 1.0, 12.0)]

    def attempt(candidate) -> SearchTrial:
        tried.append(candidate)
        return SearchTrial(3, candidate, Outcome.COMPLETED, 1.0, 12.0)

    ablate(SPACE, unknown, WINNER, known, attempt)
    assert (1, 1) not in tried
    assert len(tried) == len(set(tried))


def test_small_losses_do_not_add_up() -> None:
    speeds = {(0, 1): 10.0, (1, 1): 19.6, (2, 0): 19.6, (1, 0): 19.2}
    assert ablate(SPACE, unknown, WINNER, trials(), trying(speeds)).candidate in {(1, 1), (2, 0)}


def test_what_takes_more_memory_than_it_may_is_kept_though_it_is_as_fast() -> None:
    space = Space(SPACE.axes, memory_limit_bytes=100)
    speeds = {(0, 1): 10.0, (1, 1): 20.1, (2, 0): 18.0}

    def attempt(candidate) -> SearchTrial:
        return SearchTrial(2, candidate, Outcome.COMPLETED, 1.0, speeds[candidate], memory_bytes=101)

    assert ablate(space, unknown, WINNER, trials(), attempt).candidate == WINNER
    known = [*trials(), *map(attempt, speeds)]
    assert ablate(space, unknown, WINNER, known, lambda candidate: None).candidate == WINNER


@pytest.mark.parametrize("outcome", [Outcome.OUT_OF_MEMORY, Outcome.FAILED, Outcome.TIMED_OUT])
def test_what_did_not_go_well_is_not_tried_again(outcome) -> None:
    tried = []

    def attempt(candidate) -> SearchTrial:
        tried.append(candidate)
        speed = 20.0 if candidate == (1, 1) else None
        return SearchTrial(3, candidate, Outcome.COMPLETED if speed else outcome, 1.0, speed)

    known = [*trials(), SearchTrial(2, (2, 0), outcome, 1.0)]
    assert ablate(SPACE, unknown, WINNER, known, attempt).candidate == (1, 1)
    assert (2, 0) not in tried
    assert sorted(tried) == sorted(set(tried))


def test_what_needs_the_memory_that_ran_out_is_not_tried() -> None:
    checkpointing = "train.activation_checkpointing"
    axes = (Axis("checkpointing", "run", ({checkpointing: False}, {checkpointing: True}), 0), FUSED)
    known = [*trials(), SearchTrial(2, (0, 0), Outcome.OUT_OF_MEMORY, 1.0)]
    known = [replace(one, candidate=(1, 1) if one.candidate == WINNER else one.candidate) for one in known]
    tried = []
    ablate(Space(axes), unknown, (1, 1), known, tried.append)
    assert tried == [(1, 0)]
