from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from autotune.derive.timeline import PHASE_OF, nest, overlap, split
from autotune.model.recording import EVENT_KINDS, Event


@pytest.mark.parametrize(
    ("events", "expected"),
    [
        pytest.param([], {"other": 100}, id="nothing"),
        pytest.param([("fetch", 10, 30)], {"other": 80, "data_wait": 20}, id="one"),
        pytest.param(
            [("optimizer", 0, 100), ("forward", 10, 40), ("backward", 40, 90), ("recompute", 50, 60)],
            {"other": 0, "optimizer": 20, "forward": 30, "backward": 40, "recompute": 10},
            id="a closure: forward and backward inside the optimizer",
        ),
        pytest.param(
            [("logging", 0, 50), ("sync", 10, 20), ("gc", 60, 70), ("scaler_skip", 80, 80)],
            {"other": 50, "logging": 50},
            id="kinds without a phase stay in what encloses them",
        ),
        pytest.param(
            [("backward", -20, 10), ("forward", 90, 130)],
            {"other": 80, "backward": 10, "forward": 10},
            id="cut at both edges of the window",
        ),
        pytest.param(
            [("forward", 0, 50), ("h2d", 40, 70)],
            {"other": 50, "forward": 40, "h2d": 10},
            id="a child is cut at its parent's end",
        ),
        pytest.param(
            [("checkpoint", 0, 60), ("checkpoint", 10, 20)],
            {"other": 40, "checkpoint": 60},
            id="a save inside a save",
        ),
    ],
)
def test_exclusive_times(events, expected):
    nodes = nest([Event(*event) for event in events])
    assert split(nodes, (0, 100), []).phase_ns == expected


def test_a_phase_with_nothing_of_its_own_is_zero_not_unknown():
    nodes = nest([Event("logging", 10, 50), Event("checkpoint", 10, 50)])
    assert split(nodes, (0, 100), []).phase_ns == {"other": 60, "logging": 0, "checkpoint": 40}


def test_inside_a_stretch_all_is_evaluation_but_saves():
    events = [("fetch", 10, 20), ("forward", 20, 40), ("checkpoint", 50, 70), ("h2d", 55, 60), ("backward", 90, 100)]
    phases = split(nest([Event(*event) for event in events]), (0, 100), [(5, 80)]).phase_ns
    assert phases == {
        "other": 15,
        "data_wait": 0,
        "forward": 0,
        "checkpoint": 15,
        "h2d": 5,
        "evaluation": 55,
        "backward": 10,
    }


def test_own_times_are_in_the_order_of_the_nodes():
    nodes = nest([Event("forward", 20, 30, 1), Event("optimizer", 0, 100, 7)])
    assert [(node.event.kind, own) for node, own in zip(nodes, split(nodes, (0, 100), []).own_ns, strict=True)] == [
        ("optimizer", 90),
        ("forward", 10),
    ]


def test_outermost_and_inside():
    nodes = nest([Event("backward", 0, 50), Event("recompute", 10, 40), Event("backward", 20, 30)])
    assert [node.outermost for node in nodes] == [True, True, False]
    assert [node.inside("recompute") for node in nodes] == [False, False, True]


@pytest.mark.parametrize(
    ("span", "expected"),
    [((0, 100), 30), ((15, 45), 10), ((20, 40), 0), ((45, 200), 15)],
)
def test_overlap(span, expected):
    assert overlap(span, [(10, 20), (40, 60)]) == expected


EVENTS = st.lists(
    st.builds(
        lambda kind, start, length, flag: Event(kind, start, start + length, 0, flag),
        st.sampled_from(EVENT_KINDS),
        st.integers(-50, 400),
        st.integers(0, 150),
        st.integers(0, 3),
    ),
    max_size=25,
)


@given(EVENTS, st.integers(0, 100), st.integers(1, 300), st.integers(0, 150), st.integers(0, 150))
def test_parts_sum_to_the_window_and_none_is_negative(events, start, length, gap, evaluated):
    window = (start, start + length)
    nodes = nest(events)
    parts = split(nodes, window, [(gap, gap + evaluated)])
    assert sum(parts.phase_ns.values()) == length
    assert min(parts.phase_ns.values()) >= 0
    assert min(parts.own_ns, default=0) >= 0
    assert set(parts.phase_ns) <= {*PHASE_OF.values(), "other"}
