"""Which line and phase the device's time belongs to, against events as Kineto gives them on CUDA."""

from __future__ import annotations

import pytest
from kineto_builders import CPU, CUDA
from kineto_builders import Event as Kineto

from autotune.derive.timeline import PHASE_OF
from autotune.probe.lines import operations
from autotune.probe.lines.device_time import PHASES, DeviceTime, Phases


def Event(name, start, length, device=CPU, identity=0, linked=0, **given):
    return Kineto(name, start, length, device, identity, linked=linked, **given)


NODE = operations.BACKWARD + "MmBackward0"


class Trace:
    """Line 0 runs from 1000 on, line 1 from 1500 on."""

    times, lines = [1000, 1500], [0, 1]


def launch(number, start, operation, length, name="sgemm", call="cudaLaunchKernel", at=90_000):
    """A call and its kernel, which runs long after it."""
    return [Event(call, start, 5, identity=number, linked=operation), Event(name, at, length, CUDA, number, operation)]


def device_ns(events, phases=None):
    table = operations.tabulate(events, (1000, 2000), Trace, [], phases=phases)
    return {place[0]: row["device_ns"] for place, row in table["places"].items() if row["device_ns"]}


FORWARD = [Event("aten::mm", 1100, 50, identity=3, sequence=7), *launch(70, 1110, 3, 4000)]


def test_a_kernel_belongs_to_the_line_that_launched_it_whenever_it_runs():
    assert device_ns(FORWARD) == {0: {"closure": 4000}}
    later = [Event("aten::add", 1600, 20, identity=4), *launch(71, 1605, 4, 300), *launch(72, 1610, 4, 500)]
    assert device_ns([*FORWARD, *later]) == {0: {"closure": 4000}, 1: {"closure": 800}}


def test_what_was_launched_before_the_recorded_steps_is_not_theirs():
    assert device_ns([Event("aten::mm", 900, 50, identity=3), *launch(70, 910, 3, 4000, at=1200)]) == {}


def test_a_node_of_the_backward_pass_charges_the_line_that_made_it():
    backward = [
        Event(NODE, 1600, 90, identity=8, sequence=7, thread=2, of=1),
        # A thread of the engine counts what it computes again from nothing.
        Event("aten::linear", 1605, 4, identity=10, sequence=7, thread=2),
        Event("aten::mm", 1610, 50, identity=9),
        *launch(73, 1612, 9, 5000),
        Event(NODE, 1800, 90, identity=11, sequence=7, thread=2, of=1),
        *launch(74, 1810, 11, 2000),
    ]
    assert device_ns([*FORWARD, *backward]) == {0: {"closure": 4000, "nodes": 7000}}
    # What is computed again there keeps its phase.
    again = Phases([("backward", 1550, 1900, 0, 0), ("recompute", 1605, 1700, 0, 0)], 0)
    assert device_ns([*FORWARD, *backward], again) == {0: {"closure": 4000, "recompute": 5000, "nodes": 2000}}


def test_a_kernel_that_no_operator_launches_belongs_to_the_line_of_its_call():
    triton = launch(80, 1700, 0, 600, name="triton_poi_fused_add_0", call="cuLaunchKernelEx")
    assert device_ns(triton) == {1: {"closure": 600}}
    inside = [Event("MyFunction", 1650, 200, identity=30), *triton]
    assert device_ns(inside) == {1: {"closure": 600}}


def row_of(events, line=0):
    table = operations.tabulate(events, (1000, 2000), Trace, [])
    return next(row for place, row in table["places"].items() if place[0] == line)


def test_an_operation_takes_the_time_of_its_kernel_where_that_is_longer():
    row = row_of([*FORWARD, Event("aten::relu", 1200, 20, identity=5), *launch(75, 1205, 5, 3)])
    assert row["names"] == [("aten::mm", 1, 4000), ("aten::relu", 1, 20)]
    assert (row["ops"], row["op_ns"], row["took_ns"]) == (2, 70, 4020), "calls are no operations"


def test_what_launches_nothing_works_on_the_cpu():
    inside = [Event("aten::linear", 1300, 60, identity=6), Event("aten::addmm", 1310, 40, identity=7)]
    view = Event("aten::view", 1990, 3, identity=9)
    own = Event("aten::index", 1500, operations.LEAST_CPU_NS, identity=8)
    row = row_of([*FORWARD, *inside, *launch(76, 1315, 7, 90), own, view], line=1)
    assert (row["ops"], row["cpu_ns"]) == (1, operations.LEAST_CPU_NS)


def test_what_the_profiler_says_of_itself_is_no_operation():
    row = row_of([*FORWARD, Event("aten::mm", 1200, 50, identity=5), Event("Command Buffer Full", 1210, 30)])
    assert [name for name, _, _ in row["names"]] == ["aten::mm"]


def test_without_the_call_a_kernel_is_found_by_its_operation():
    kernel = Event("sgemm", 90_000, 4000, CUDA, 70, 3)
    operation = Event("aten::mm", 1100, 50, identity=3)
    assert DeviceTime([operation, kernel]).of(operation) == 4000
    annotation = Event("step", 90_000, 9000, CUDA, 3, 3, annotation=True)
    assert DeviceTime([operation, annotation]).of(operation) == 0, "a range of the script's is no kernel"


def test_the_phases_are_those_of_a_window():
    assert set(PHASES) == set(PHASE_OF)


@pytest.mark.parametrize(
    ("moment", "phase"),
    [(5, "closure"), (10, "forward"), (25, "recompute"), (30, "forward"), (40, "closure"), (60, "evaluation")],
)
def test_the_phase_is_the_innermost_and_all_of_an_evaluation_is_evaluation(moment, phase):
    events = [
        ("recompute", 20, 30, 0, 0), ("forward", 10, 40, 0, 0), ("sync", 24, 29, 0, 0),
        ("evaluation", 50, 80, 0, 0), ("forward", 55, 70, 0, 0),
    ]  # fmt: skip
    assert Phases(events, 1000).at(1000 + moment) == phase
