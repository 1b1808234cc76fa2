"""Phases of watched windows are those of a diagnosis: the same events, split by derive/timeline.py."""

from __future__ import annotations

import itertools

from hypothesis import given
from hypothesis import strategies as st

from autotune.derive import timeline
from autotune.model.recording import Event
from autotune.probe.watch import phases

KINDS = ("iter", "fetch", "forward", "backward", "optimizer", "checkpoint", "logging", "gc", "h2d", "closure")


@st.composite
def nested(draw, begin=0, end=1000, depth=0):
    """Events of one thread: one after the other, or inside one another."""
    events, now = [], begin
    for _ in range(draw(st.integers(0, 4 if depth == 0 else 2))):
        if now >= end - 1:
            break
        start = draw(st.integers(now, end - 1))
        stop = draw(st.integers(start, end))
        events.append((draw(st.sampled_from(KINDS)), start, stop, -1, 0))
        if depth < 2 and stop - start > 2:
            events += draw(nested(start, stop, depth + 1))
        now = stop
    return events


@given(nested(), st.lists(st.integers(1, 999), max_size=4, unique=True))
def test_each_instant_goes_to_the_phase_that_derive_gives_it_to(events, inner):
    edges = [0, *sorted(inner), 1000]
    nodes = timeline.nest([Event(*event) for event in events])
    assert phases.PHASE_OF == timeline.PHASE_OF
    ours, theirs = phases.by_step(events, edges), timeline.by_step(nodes, edges, [])
    assert ours == theirs
    assert [sum(row.values()) for row in ours] == [b - a for a, b in itertools.pairwise(edges)]


def test_what_an_evaluation_does_is_evaluation_but_its_save():
    events = [("evaluation", 10, 90, -1, 0), ("fetch", 20, 30, -1, 0), ("checkpoint", 60, 80, -1, 0)]
    assert phases.by_step(events, [0, 100]) == [{"other": 20, "evaluation": 60, "checkpoint": 20}]


def test_the_mean_leaves_the_slowest_tenth_out_and_puts_the_longest_first():
    rows = [{"forward": 3_000_000, "data_wait": 1_000_000}] * 18 + [{"evaluation": 10**9}] * 2
    assert phases.mean_ms(rows) == {"forward": 3.0, "data_wait": 1.0}
    assert list(phases.mean_ms(rows)) == ["forward", "data_wait"]
