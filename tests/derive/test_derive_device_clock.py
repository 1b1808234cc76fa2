from __future__ import annotations

import pytest
from build import MS, Script, facts, recording
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from autotune.derive import derive
from autotune.derive.device_clock import between
from autotune.model.report import PHASES

CUDA = {"type": "cuda", "name": "synthetic", "capability": "9.0", "index": 0}


@pytest.mark.parametrize(
    "marks",
    [
        pytest.param((), id="none"),
        pytest.param(((11, 0), (100, 50)), id="from after the start"),
        pytest.param(((10, 0), (99, 50)), id="until before the end"),
        pytest.param(((10, 5), (100, 5)), id="a clock that stands"),
    ],
)
def test_without_marks_over_the_whole_window_nothing_moves(marks):
    to = between(marks, 10, 100)
    assert [to(at) for at in (0, 10, 50, 100, 120)] == [0, 10, 50, 100, 120]


def test_an_instant_moves_to_when_the_device_got_there():
    to = between(((0, 0), (10, 40), (20, 80), (100, 100)), 0, 100)
    assert [to(at) for at in (0, 5, 10, 20, 60, 100)] == [0, 20, 40, 80, 90, 100]


def test_the_window_keeps_its_ends_when_the_lag_grows():
    # Between its ends the host took 100 and the device 125: a quarter of a step more was queued at the end.
    to = between(((0, 0), (50, 100), (100, 125)), 0, 100)
    assert [to(at) for at in (-7, 0, 50, 100, 130)] == [-7, 0, 80, 100, 130]


@given(st.lists(st.tuples(st.integers(0, 40), st.integers(0, 40)), min_size=2, max_size=12), st.integers(1, 60))
def test_the_order_of_times_stays(deltas, length):
    marks, host, device = [], 0, 0
    for host_ns, device_ns in deltas:
        host, device = host + host_ns, device + device_ns
        marks.append((host, device))
    start = marks[0][0]
    moved = [between(marks, start, start + length)(at) for at in range(start - 5, start + length + 5)]
    assert moved == sorted(moved)


def cuda_run(has_clock):
    """A synthetic run: the host queues a step of 100 ms in 11 and waits for it in a read at its end, outside any phase.

    The device needs 40 ms for the forward and 60 for the backward; `has_clock` False leaves its clock out.
    """
    script, marks = Script(), []

    def mark(device_ms):
        marks.append((script.now * MS, device_ms * MS))

    for step in range(4):
        begin = 100 * step
        script.now = begin
        mark(begin)
        script.fetch(1)
        mark(begin + 1)
        script.forward(4)
        mark(begin + 40)
        script.run("backward", 5)
        mark(begin + 98)
        script.run("optimizer", 1, 0)
        mark(begin + 100)
        script.idle(89)
        script.end_step()
    mark(400)
    one = recording(script, device=CUDA)
    return replace(one, window=replace(one.window, device_clock=tuple(marks) if has_clock else ()))


@pytest.mark.parametrize(
    ("has_clock", "expected"),
    [
        (True, {"data_wait": 1, "forward": 39, "backward": 58, "optimizer": 2, "other": 0}),
        (False, {"data_wait": 1, "forward": 4, "backward": 5, "optimizer": 1, "other": 89}),
    ],
)
def test_the_breakdown_is_the_devices_where_its_clock_is_known(has_clock, expected):
    derived = derive([cuda_run(has_clock)])
    breakdown = {phase: ms for phase, ms in derived.step.breakdown_ms.items() if ms is not None}
    assert breakdown == pytest.approx(expected, abs=1e-6)
    assert sum(breakdown.values()) == pytest.approx(derived.step.mean_ms)
    assert facts(derived)["step.forward_share"] == pytest.approx(expected["forward"] / 100)
    assert facts(derived, "optimizer#0")["optimizer.step_ms"] == pytest.approx(expected["optimizer"])


def test_a_wait_for_data_counts_as_far_as_the_device_ran_dry():
    script, marks = Script(), []
    for step in range(3):
        begin = 100 * step
        script.now = begin
        # The loader takes 70 ms, for 50 of which the device still works on what was queued before.
        marks.append((begin * MS, (begin + 50) * MS))
        script.fetch(70)
        marks.append((script.now * MS, (begin + 70) * MS))
        script.forward(20)
        script.run("backward", 10)
        script.end_step()
    marks.append((300 * MS, 350 * MS))
    one = recording(script, device=CUDA)
    breakdown = derive([replace(one, window=replace(one.window, device_clock=tuple(marks)))]).step.breakdown_ms
    assert breakdown["data_wait"] == pytest.approx(20)
    assert sum(breakdown[phase] or 0 for phase in PHASES) == pytest.approx(100)
