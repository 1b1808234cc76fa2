"""A pair in turns, and what becomes of it where two cannot run at once."""

from __future__ import annotations

import pytest

from autotune import collect
from autotune.model.verified import AFTER, BEFORE, TimeSlicing
from autotune.verify.pairs import PairRunner
from autotune.verify.runs import MemoryShortError

REQUESTS = {AFTER: collect.Request(steps=1), BEFORE: collect.Request(steps=2)}


class Runner:
    """Says how each start was made."""

    def __init__(self, fails_after: int = 0, error: Exception | None = None, together_s: float = 99.0) -> None:
        self.fails_after, self.error, self.pairs, self.together_s = fails_after, error, 0, together_s

    def in_turns(self, requests, turns):
        self.pairs += 1
        if self.pairs <= self.fails_after and turns.together_s <= self.together_s:
            return dict.fromkeys(requests, "in turns")
        if self.error:
            raise self.error
        return None

    def run(self, side, request):
        return f"{side}, {request.steps} steps"


ALONE = {AFTER: "after, 1 steps", BEFORE: "before, 2 steps"}


@pytest.mark.parametrize("error", [None, MemoryShortError("x")])
def test_once_two_cannot_run_at_once_they_run_one_after_the_other(error) -> None:
    runner = Runner(1, error)
    pairs = PairRunner(runner, TimeSlicing(1.0, 0.1))
    assert list(pairs.make(REQUESTS).values()) == ["in turns"] * 2
    assert pairs.turns is not None
    assert [list(pairs.make(REQUESTS).items()) for _ in range(2)] == [list(ALONE.items())] * 2
    assert (pairs.turns, runner.pairs) == (None, 2 if error else 3)


def test_a_pair_that_began_to_measure_too_early_is_made_again_with_earlier_turns() -> None:
    runner = Runner(9, together_s=0.5)
    pairs = PairRunner(runner, TimeSlicing(1.0, 0.1))
    assert [list(pairs.make(REQUESTS).values()) for _ in range(2)] == [["in turns"] * 2] * 2
    assert (pairs.turns, runner.pairs) == (TimeSlicing(0.5, 0.1), 3)


def test_without_turns_it_is_one_after_the_other() -> None:
    runner = Runner()
    assert PairRunner(runner, None).make(REQUESTS) == ALONE
    assert runner.pairs == 0


def test_another_error_is_raised() -> None:
    with pytest.raises(ValueError, match="x"):
        PairRunner(Runner(0, ValueError("x")), TimeSlicing(1.0, 0.1)).make(REQUESTS)
