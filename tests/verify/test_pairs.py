"""Pairs: how many are measured, and how the two runs of one are."""

from __future__ import annotations

import pytest
from verify_builders import start

from autotune import collect
from autotune.errors import UsageError
from autotune.model.verified import AFTER, BEFORE, TimeSlicing
from autotune.verify.pairs import PairRunner, measure, refuse_few
from autotune.verify.runs import MemoryShortError
from autotune.verify.schedule import order, paired
from autotune.verify.thresholds import FURTHER_PAIRS, LEAST_PAIRS, MOST_LOOKS


class Machine:
    """Makes starts of 2 s each, or of so many as `takes` says of a pair; `looks` are (pairs, look) that were judged."""

    def __init__(self, conclusive_at: int = 1, takes=lambda pair: 4.0) -> None:
        self.conclusive_at, self.takes, self.made, self.looks, self.now = conclusive_at, takes, [], [], 0.0

    def run(self, pair: tuple[str, str]):
        self.now += self.takes(len(self.made) // 2)
        self.made += [start(side, step_ms=float(len(self.made) + at)) for at, side in enumerate(pair, 1)]
        return self.made[-2:]

    def is_conclusive(self, starts, look: int) -> bool:
        self.looks.append((len(starts) // 2, look))
        return look >= self.conclusive_at

    def make(self, planned: int, deadline: float, **given):
        return measure(self.run, planned, 4.0, deadline, self.is_conclusive, clock=lambda: self.now, **given)


def test_what_was_planned_is_made_and_judged_once() -> None:
    machine = Machine()
    starts, look = machine.make(5, 20.0)
    assert starts == machine.made
    assert [one.side for one in starts] == list(order(5))
    assert (look, machine.looks) == (1, [(5, 1)])


def test_other_work_ends_nothing_and_leaves_no_pair_out() -> None:
    machine = Machine(takes=lambda pair: 4.0)
    crowded = {"others_share": 0.9, "busy_share": 1.0}
    machine.run = lambda pair: machine.made.extend(start(side, **crowded) for side in pair) or machine.made[-2:]
    assert len(machine.make(4, 20.0)[0]) == 8


def test_while_they_do_not_tell_more_are_made_and_judged_again() -> None:
    machine = Machine(conclusive_at=3)
    starts, look = machine.make(10, 1000.0)
    more = FURTHER_PAIRS
    assert machine.looks == [(10, 1), (10 + more, 2), (10 + 2 * more, 3)]
    assert (len(starts) // 2, look) == (10 + 2 * more, 3)
    assert [one.side for one in starts] == list(order(10 + 2 * more))


def test_what_never_tells_has_an_end() -> None:
    machine = Machine(conclusive_at=99)
    starts, look = machine.make(10, 1e9)
    assert look == MOST_LOOKS
    assert len(starts) // 2 == 10 + (MOST_LOOKS - 1) * FURTHER_PAIRS


def test_the_time_ends_it_between_looks_and_in_one() -> None:
    machine = Machine(conclusive_at=99)
    starts, look = machine.make(10, 50.0)
    assert (len(starts) // 2, look, machine.now) == (12, 2, 48.0)
    assert Machine(conclusive_at=99).make(10, 42.0)[1] == 1


def test_a_pair_takes_as_long_as_the_one_before() -> None:
    starts, _ = Machine(takes=lambda pair: 4.0 if pair < 3 else 9.0).make(10, 30.0)
    assert len(starts) // 2 == 5


@pytest.mark.parametrize("takes", [4.0, 9.0, 30.0, 100.0])
@pytest.mark.parametrize("deadline", [1.0, 14.0, 60.0])
def test_a_budget_is_exceeded_by_one_start_at_most(takes: float, deadline: float) -> None:
    machine = Machine(takes=lambda pair: takes)
    machine.make(10, deadline)
    assert machine.now <= max(deadline, takes) + takes / 2


def test_the_first_pairs_may_exceed_the_time_by_a_start_and_later_ones_may_not() -> None:
    assert len(Machine().make(10, 4.0 * LEAST_PAIRS - 2.0)[0]) // 2 == LEAST_PAIRS
    assert len(Machine().make(10, 4.0 * LEAST_PAIRS + 3.9)[0]) // 2 == LEAST_PAIRS


def test_it_goes_on_from_what_is_there() -> None:
    machine = Machine()
    before = [start(side) for side in order(3)]
    starts, look = machine.make(2, 100.0, earlier=before, look=2)
    assert starts[:6] == before
    assert [one.side for one in starts] == list(order(5))
    assert (look, machine.looks) == (2, [(5, 2)])
    assert len(paired(starts)[0]) == len(paired(starts)[1])


@pytest.mark.parametrize("pairs", [0, 1])
def test_fewer_pairs_than_an_interval_needs_are_kept_for_another_time(pairs: int) -> None:
    with pytest.raises(UsageError, match=f"the budget allowed only {pairs} of {LEAST_PAIRS} pairs") as refused:
        refuse_few([start()] * (2 * pairs), 70.0, 40.0)
    assert (
        refused.value.to_do
        == f"They are stored: --resume --budget {(LEAST_PAIRS - pairs) * 40 + 1}s continues from there."
    )
    refuse_few([start()] * 4, 70.0, 40.0)


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
