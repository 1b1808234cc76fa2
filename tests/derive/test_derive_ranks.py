"""Ranks against one another: who is late, by how much, at which line, and what the others wait."""

from __future__ import annotations

import pytest
from build import Script, derive, facts, facts_of, recording, sample, steps

from autotune.derive import assemble
from autotune.derive.rank_waits import rank_of
from autotune.model.derived import Derived
from autotune.model.recording import Recording

NUM_STEPS = 4
LINE = "work (train.py:3)"


def rank(number: int, of: int, script: Script, **changes: object) -> Recording:
    return recording(script, process={"rank": number, "world_size": of, "local_world_size": of}, **changes)


def works(other: int = 0, fetch: int = 10, backward: int = 30) -> Script:
    """Steps with `other` ms in no known phase before the backward."""
    script = Script()
    for _ in range(NUM_STEPS):
        script.fetch(fetch)
        script.forward(20)
        script.idle(other)
        script.run("backward", backward)
        script.update()
    return script


def breakdown(derived: Derived) -> dict[str, float | None]:
    assert derived.step is not None
    return dict(derived.step.breakdown_ms)


def test_one_rank_has_no_spread():
    assert not [name for name in facts_of(script=steps(3)) if name.startswith("ranks.")]


def test_a_rank_that_waits_for_data_is_waited_for():
    derived = derive([rank(0, 2, works(backward=60)), rank(1, 2, works(fetch=40))])
    found = facts(derived)
    assert (found["ranks.slowest"], found["ranks.spread_ms"], found["ranks.slowest_phase"]) == (1, 30.0, "data wait")
    assert found["ranks.spread_share"] == 0.5
    parts = breakdown(derived)
    assert (parts["backward"], parts["rank_wait"]) == (30.0, 30.0)
    assert sum(ms or 0.0 for ms in parts.values()) == found["step.mean_ms"] == 95.0
    assert found["step.rank_wait_share"] == pytest.approx(30 / 95)


def test_work_of_the_loop_itself_is_named_by_its_line():
    """The sampler sees the line in the late rank's steps; the others' backward is longer by as much."""
    late = rank(1, 2, works(other=80), samples=(sample("other", 200), sample("other", 3, line=9)))
    quick = rank(0, 2, works(backward=110), samples=(sample("other", 4, line=9),))
    found = facts(derive([quick, late]))
    assert (found["ranks.slowest"], found["ranks.spread_ms"]) == (1, 80.0)
    assert (found["ranks.slowest_phase"], found["ranks.slowest_line"]) == ("other", LINE)
    assert found["step.rank_wait_share"] == pytest.approx(80 / 145)


def test_the_late_rank_itself_waits_for_nobody():
    late = rank(0, 2, works(other=80), samples=(sample("other", 200),))
    derived = derive([late, rank(1, 2, works(backward=110))])
    found = facts(derived)
    assert (found["ranks.slowest"], found["ranks.slowest_line"]) == (0, LINE)
    assert "step.rank_wait_share" not in found
    assert breakdown(derived)["other"] == 80.0


def test_time_in_no_phase_that_nobody_waits_for_makes_no_rank_late():
    """A loss that is gathered: the quick rank waits outside of backward, and looks as if it worked."""
    found = facts(derive([rank(0, 2, works(other=30)), rank(1, 2, works(fetch=40))]))
    assert (found["ranks.slowest"], found["ranks.spread_ms"]) == (1, 30.0)


def test_the_late_one_of_four():
    three = [rank(number, 4, works(backward=70)) for number in (0, 1, 3)]
    found = facts(derive([*three, rank(2, 4, works(fetch=50))]))
    assert (found["ranks.slowest"], found["ranks.spread_ms"], found["ranks.spread_share"]) == (2, 40.0, 40 / 70)
    assert found["step.rank_wait_share"] == pytest.approx(40 / 105)


def test_equal_ranks_wait_for_nobody():
    derived = derive([rank(number, 2, works()) for number in (0, 1)])
    assert facts(derived)["ranks.spread_ms"] == 0.0
    assert breakdown(derived)["rank_wait"] is None


@pytest.mark.parametrize(
    ("fetch", "backward", "waits"),
    [(14, 34, True), (13, 33, False), (40, 31, False), (40, 34, True)],
    ids=["late by 11.8 %", "late by 9.1 %", "its backward is hardly longer", "both"],
)
def test_jitter_is_no_wait(fetch: int, backward: int, waits: bool):
    """Both limits are DD006's: a tenth of the late one's work, and 3 % of the step."""
    derived = derive([rank(0, 2, works(backward=backward)), rank(1, 2, works(fetch=fetch))])
    assert (breakdown(derived)["rank_wait"] is not None) is waits


def on(host: str, number: int, of: int, script: Script, **changes: object) -> Recording:
    process = {"rank": number, "world_size": of, "local_world_size": of, "host": host}
    return recording(script, process=process, **changes)


def test_the_late_rank_is_named_with_its_host_where_there_are_several():
    found = derive([on("a", 0, 2, works(backward=60)), on("b", 1, 2, works(fetch=40))])
    assert facts(found)["ranks.slowest_host"] == "b"
    assert found.hosts == ("a", "b") and [rank.host for rank in found.ranks] == ["a", "b"]
    assert "ranks.slow_host" not in facts(found)  # one rank of each: it may be the rank as well as the host


def test_one_host_is_not_named():
    found = facts(derive([on("a", 0, 2, works(backward=60)), on("a", 1, 2, works(fetch=40))]))
    assert found["ranks.slowest"] == 1 and "ranks.slowest_host" not in found


@pytest.mark.parametrize(("third", "expected"), [(38, "b"), (10, None)])
def test_a_host_is_slow_where_each_of_its_ranks_is_slower_than_all_others(third, expected):
    ranks = [on("a", 0, 4, works(backward=60)), on("a", 1, 4, works(backward=60))]
    ranks += [on("b", 2, 4, works(fetch=40)), on("b", 3, 4, works(fetch=third))]
    found = facts(derive(ranks))
    assert (found["ranks.slowest"], found.get("ranks.slow_host")) == (2, expected)


def test_where_ranks_are_missing_the_others_being_even_tells_nothing():
    """The missing one may be the late one: the rules that ask are skipped, not passed."""
    even = derive([rank(0, 3, works()), rank(1, 3, works())])
    assert even.missing_ranks == (2,)
    assert not [name for name in facts(even) if name.startswith("ranks.s")]


def test_where_ranks_are_missing_a_late_one_is_told():
    found = facts(derive([rank(0, 3, works(backward=60)), rank(1, 3, works(fetch=40))]))
    assert (found["ranks.slowest"], found["ranks.spread_share"]) == (1, 0.5)


def test_of_many_ranks_the_devices_of_the_first_ones_and_of_the_late_one_are_profiled(monkeypatch):
    looked = []
    monkeypatch.setattr(assemble.device_profile, "profile", lambda view: looked.append(rank_of(view)))
    derive([rank(number, 40, works(fetch=40 if number == 30 else 10)) for number in range(40)])
    assert sorted(set(looked)) == [*range(15), 30]
    looked.clear()
    derive([rank(number, 3, works()) for number in range(3)])
    assert sorted(set(looked)) == [0, 1, 2]
