from __future__ import annotations

import pytest
from verify_builders import start

from autotune.errors import BusyError
from autotune.model.verified import AFTER, BEFORE, Schedule
from autotune.verify import rounds
from autotune.verify.schedule import order, paired

CROWDED = {"others_share": 0.5, "busy_share": 0.99}
REHEARSED = [start(BEFORE), start(AFTER)]


class Machine:
    """Makes starts of 2 s each; `crowded` are the numbers of those that other work disturbs."""

    def __init__(self, *crowded: int) -> None:
        self.crowded, self.made, self.now = crowded, [], 0.0

    def run(self, pair: tuple[str, str]):
        for side in pair:
            self.now += 2.0
            number = len(self.made)
            self.made.append(start(side, step_ms=float(number + 1), **(CROWDED if number in self.crowded else {})))
        return self.made[-2:]

    def make(self, pairs: int, deadline: float, rehearsed=REHEARSED):
        planned = Schedule(order(pairs), 10, 3, pairs * 4.0)
        return rounds.make(self.run, planned, rehearsed, deadline, clock=lambda: self.now)


def test_an_undisturbed_machine_makes_what_was_planned() -> None:
    machine = Machine()
    assert machine.make(5, 20.0) == machine.made
    assert [one.side for one in machine.made] == list(order(5))


def test_a_crowded_pair_is_made_once_more_where_the_time_holds_it() -> None:
    machine = Machine(3)
    starts = machine.make(4, 20.0)
    assert len(machine.made) == 10
    assert not {one.step_ms for one in machine.made[2:4]} & {one.step_ms for one in starts}
    assert [one.side for one in starts] == list(order(4))
    assert len(Machine(3).make(4, 19.0)) == 8
    assert Machine(3, 4).make(4, 60.0)[2].others_share == 0.5


def test_the_time_for_four_pairs_is_kept_and_later_pairs_give_way() -> None:
    machine = Machine(3)
    starts = machine.make(6, 24.0)
    before, after = paired(starts)
    assert (len(before), len(after)) == (5, 5)
    assert machine.now <= 24.0


@pytest.mark.parametrize(("crowded", "deadline"), [((0, 1), 16.0), ((0, 1, 2, 3), 40.0)])
def test_a_busy_machine_is_refused_after_the_first_pair(crowded, deadline: float) -> None:
    machine = Machine(*crowded)
    with pytest.raises(BusyError, match="other work kept the CPUs busy during 3 of the first 4 starts"):
        machine.make(4, deadline, [start(BEFORE, **CROWDED), start(AFTER)])
    assert machine.now <= deadline / 2


def test_every_cause_is_named() -> None:
    quota = [start(BEFORE, throttled_share=0.0), start(BEFORE, throttled_share=0.5)]
    with pytest.raises(BusyError, match="CPUs busy or a CPU quota held the script back during 2 of the first 3 starts"):
        rounds.refuse_disturbed([start(AFTER, **CROWDED), *quota])


def test_one_disturbed_pair_is_not_refused() -> None:
    assert len(Machine(0, 1).make(4, 16.0)) == 8
