"""Which operations of torch the user's lines and modules start, and what their backward costs.

torch.profiler records the operations of one or two live steps, a trace which line runs when. An operation belongs to
the line and the module that ran when it began. A node of the backward pass bears the sequence number of the operation
that made it, and belongs to that operation's line and module. On CUDA kernels are recorded too: each belongs to the
line and the module of the operation that launched it.
"""

from __future__ import annotations

import sys
import time
from bisect import bisect_right, insort

from .. import clock, profiling
from . import selection_by_value, statements
from .backward_passes import BackwardPasses, RepeatedNodes
from .device_time import LAUNCHES, DeviceTime, Phases
from .line_trace import LineTrace
from .modules import NONE, ModuleStack

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from typing import Any

    from ..session import ProbeSession
    from ..shapes import Place, Row
    from .backward_passes import Again, Node, Pass

SHORT_S = 0.5
"""A step as short as this is recorded twice."""

MOST_ROWS = 400
MOST_NODES = 16
"""Of one operation."""

MOST_NAMES = 4
BACKWARD = "autograd::engine::evaluate_function: "

LEAST_CPU_NS = 50_000
"""An operation on the CUDA device that launches nothing, as a view, takes a few microseconds."""

RECOMPUTE = "recompute"
BY_NODES = "nodes"
"""The phase of what nodes of the backward pass launch, which belongs to the line of the forward pass that made them."""

NOWHERE = (-1, NONE)
"""The Place of what belongs to no line and no module."""


class LineOperations:
    """The profiler and the trace, started here; the first step warms both up and is left out.

    Whatever fails leaves the script alone and `table` None.
    """

    def __init__(self, session: ProbeSession, mean_s: float) -> None:
        self._session = session
        self._wanted = 2 if mean_s <= SHORT_S else 1
        self._done = -1
        self._span = (0, 0)
        self._last_ns = 0
        self._trace: LineTrace | None = None
        self._modules = ModuleStack(keeps_changes=True)
        self._passes: BackwardPasses | None = None
        self._profiler = None
        try:
            self._profiler = profiling.start(cuda=session.trains_on_cuda(), shapes=True)
        except Exception:  # a profiler of the script's own
            self._wanted = 0

    def on_step(self) -> bool:
        """An optimizer step has ended; whether it was the last one."""
        self._done += 1
        self._last_ns = time.time_ns()
        if self._done == 0 and self._wanted:
            self._session.recorder.modules = self._modules
            self._trace = LineTrace()
            try:
                self._trace.begin()
            except RuntimeError:  # a debugger, a coverage tool
                self._trace = None
                return True
            self._passes = self._session.recorder.passes = BackwardPasses(self._trace)
            self._span = (time.time_ns(), 0)
        return self._done >= self._wanted

    def table(self) -> Row | None:
        """The Recording's `lines.operations`; None when no whole step was recorded."""
        profiler, self._profiler = self._profiler, None
        trace, self._trace = self._trace, None
        span = (self._span[0], self._last_ns)  # what comes after the last step is none
        self._session.recorder.modules = None
        self._session.recorder.passes = None
        if trace is not None:
            trace.end()
        if profiler is None:
            return None
        try:
            profiler.stop()
            if trace is None or self._passes is None or self._done < 1 or trace.is_cut:
                return None
            events = profiler.profiler.kineto_results.events()
            phases = Phases(self._session.recorder.events, time.time_ns() - clock.now())
            table = tabulate(events, span, trace, self._modules.changes, self._passes.rows, phases)
        except Exception:  # another torch's profiler has other names: the operations stay unknown
            return None
        modules = self._modules.rows(self._session)
        rows = [_named(place, row, trace, modules) for place, row in table["places"].items()]
        ranked = sorted(rows, key=_rank)
        return {
            "steps": self._done,
            "wall_ns": span[1] - span[0],
            "backward_ns": table["backward_ns"],
            "rows": ranked[:MOST_ROWS],
            "modules": list(modules.values()),
            "repeated_passes": table["repeated_passes"],
            "derived_one_by_one": table["derived_one_by_one"],
            "selected_by_value": selection_by_value.of_lines(
                (row["file"], row["line"]) for row in rows if row["backward_ns"]
            ),
            "runs": _runs(trace, {line for line, _ in table["places"]}),
            "statements": statements.of_lines((row["file"], row["line"]) for row in ranked[:MOST_ROWS] if row["file"]),
        }


def tabulate(
    events: Iterable[Any],
    span: tuple[int, int],
    trace: LineTrace,
    modules: Sequence[tuple[int, int]],
    passes: Sequence[Pass] = (),
    phases: Phases | None = None,
) -> dict[str, Any]:
    """{"places": {Place: Row}, "backward_ns": all nodes of the backward pass, "repeated_passes": RepeatedPasses,
    "derived_one_by_one": DerivedOneByOne} of the Kineto `events` within `span`.

    A row has the outermost operations' number and time, of those within them what is float64 and the names that take
    most by themselves, the backward's time, how long the place was the innermost one, and on CUDA the device's time by
    phase. Times in ns.
    """
    events = list(events)
    device, phases = DeviceTime(events), phases or Phases((), 0)
    places: dict[Place, Row] = {}
    at = _Places(trace, modules)
    for place, held in at.times(span):
        _row(places, place)["host_ns"] += held
    makers, repeated = _Makers(), RepeatedNodes(passes)
    backward_ns = 0
    enclosing: list[_Open] = []
    for event in sorted(_within(events, span), key=lambda one: (one.start_ns(), -one.duration_ns())):
        start, length, name = event.start_ns(), event.duration_ns(), event.name()
        _close_ended(start, places, enclosing)
        parent = enclosing[-1] if enclosing else None
        is_call = name.startswith(LAUNCHES)
        is_node = name.startswith(BACKWARD)
        is_inside = parent is not None and parent.is_backward
        again = parent.again if parent is not None else None
        if is_node and not is_inside:
            node = event.fwd_thread_id(), event.sequence_nr()
            place, made_by = makers.of(node)
            again = repeated.ran(node, start, length, made_by)
            backward_ns += length
            _row(places, place)["backward_ns"] += length
        elif parent is not None:
            place = parent.place
            parent.own_ns -= 0 if is_call else length
        else:
            place = at.of(start)
        launched = device.of(event)
        _charge(_row(places, place), phases.at(start), launched, by_node=is_node or is_inside)
        if is_call:
            _launches(parent, launched)
            continue
        if parent is None and not is_node:
            if "::" not in name:  # a custom autograd Function: code of the user's, in which other lines run
                makers.note(event, place)
                continue
            _row(places, place)["ops"] += 1
            _row(places, place)["op_ns"] += length
        if not is_node and "::" in name:
            makers.note(event, place, again)  # inside a node: it makes nodes of a second derivative
        is_host_op = parent is None and not is_node
        enclosing.append(
            _Open(
                name,
                (start, start + length),
                place,
                launched,
                is_node or is_inside,
                is_host_op,
                _is_double(event),
                again,
            )
        )
    _close_ended(sys.maxsize, places, enclosing)
    for row in places.values():
        row["names"] = _most(row["names"])
    return {
        "places": places,
        "backward_ns": backward_ns,
        "repeated_passes": repeated.rows(),
        "derived_one_by_one": repeated.of_one_output(),
    }


class _Makers:
    """Which place made the nodes of the backward pass, and in whose repetition.

    When an operation begins, it takes the number of the next node of its thread. Several nested operations share a
    number: the last of them made the node. An assignment into a slice makes several nodes, and has the number of the
    first.
    """

    def __init__(self) -> None:
        self._made: dict[Node, tuple[Place, Again | None]] = {}
        self._nodes: list[Node] = []

    def note(self, operation: Any, place: Place, again: Again | None = None) -> None:
        node = operation.start_thread_id(), operation.sequence_nr()
        if node[1] < 0:
            return
        if node not in self._made:
            insort(self._nodes, node)
        self._made[node] = place, again

    def of(self, node: Node) -> tuple[Place, Again | None]:
        """That of the operation of its thread with the largest number up to this one. Nodes that no operation made, as
        those that add gradients up, have numbers beyond all others."""
        if node in self._made:
            return self._made[node]
        index = bisect_right(self._nodes, node) - 1
        thread, number = self._nodes[index] if index >= 0 else (-1, -1)
        is_near = thread == node[0] and node[1] - number <= MOST_NODES
        return self._made[thread, number] if is_near else (NOWHERE, None)


class _Open:
    """An event that encloses the next ones.

    `own_ns` is what it leaves to itself, `device_ns` what it launched by itself, `is_on_device` whether it or one
    within it launched anything, `again` whose repetition it is in.
    """

    def __init__(
        self,
        name: str,
        span: tuple[int, int],
        place: Place,
        device_ns: int,
        is_backward: bool,
        is_outermost: bool,
        is_double: bool,
        again: Again | None,
    ) -> None:
        self.name = name
        self.end = span[1]
        self.length = self.own_ns = span[1] - span[0]
        self.place = place
        self.device_ns = device_ns
        self.is_on_device = device_ns > 0
        self.is_backward = is_backward
        self.is_outermost = is_outermost
        self.is_double = is_double
        self.again = again


def _launches(parent: _Open | None, device_ns: int) -> None:
    """A call within `parent` put work into the device's queue."""
    if parent is not None and device_ns:
        parent.device_ns += device_ns
        parent.is_on_device = True


def _close_ended(moment: int, places: dict[Place, Row], enclosing: list[_Open]) -> None:
    """Take off the events that have ended."""
    while enclosing and enclosing[-1].end <= moment:
        event = enclosing.pop()
        if enclosing:
            enclosing[-1].is_on_device |= event.is_on_device
        _close(places, event)


def _close(places: dict[Place, Row], event: _Open) -> None:
    """An operation takes the host's time or the device's, whichever is more: they work beside each other."""
    row, took = _row(places, event.place), max(event.own_ns, event.device_ns)
    total = row["names"].setdefault(event.name.replace(BACKWARD, ""), [0, 0])
    total[0] += 1
    total[1] += took
    row["took_ns"] += took
    row["double_ns"] += took if event.is_double else 0
    if event.is_outermost and not event.is_on_device and event.length >= LEAST_CPU_NS:
        row["cpu_ns"] += event.length


def _within(events: Iterable[Any], span: tuple[int, int]) -> list[Any]:
    """Operations and launches of the host, without the ranges that a script gives names to and what the profiler says
    of itself ("Command Buffer Full")."""
    return [
        event
        for event in events
        if event.device_type().name == "CPU"
        and span[0] <= event.start_ns() < span[1]
        and not event.is_user_annotation()
        and not event.name().startswith("Optimizer.")
        and (" " not in event.name() or "::" in event.name())
    ]


def _is_double(one: Any) -> bool:
    return any(kind in ("double", "c10::complex<double>") for kind in one.dtypes()[:3])


def _row(places: dict[Place, Row], place: Place) -> Row:
    counts = ("ops", "op_ns", "backward_ns", "host_ns", "double_ns", "cpu_ns", "took_ns")
    return places.setdefault(place, {**dict.fromkeys(counts, 0), "device_ns": {}, "names": {}})


def _charge(row: Row, phase: str, device_ns: int, *, by_node: bool) -> None:
    """`by_node`: a node of the backward pass launched it; activations that are computed again have their own phase."""
    kind = BY_NODES if by_node and phase != RECOMPUTE else phase
    if device_ns:
        row["device_ns"][kind] = row["device_ns"].get(kind, 0) + device_ns


def _rank(row: Row) -> float:
    """Those come first that cost most, on the host or on the device."""
    return -float(row["op_ns"] + row["backward_ns"] + row["host_ns"] + sum(row["device_ns"].values()))


def _most(names: dict[str, list[int]]) -> list[tuple[str, int, int]]:
    """(name, count, ns) of what takes most by itself, most first."""
    ranked = sorted(names.items(), key=lambda item: -item[1][1])[:MOST_NAMES]
    return [(name, count, own_ns) for name, (count, own_ns) in ranked]


class _Places:
    """Which line and module ran at a time."""

    def __init__(self, trace: LineTrace, modules: Sequence[tuple[int, int]]) -> None:
        self._trace = trace
        self._module_times = [moment for moment, _ in modules]
        self._modules = [key for _, key in modules]

    def of(self, moment: int) -> Place:
        line = bisect_right(self._trace.times, moment) - 1
        module = bisect_right(self._module_times, moment) - 1
        return (
            self._trace.lines[line] if line >= 0 else -1,
            self._modules[module] if module >= 0 else NONE,
        )

    def times(self, span: tuple[int, int]) -> Iterable[tuple[Place, int]]:
        """(place, ns) of each stretch of the span in which neither the line nor the module changes."""
        edges = sorted({*self._trace.times, *self._module_times, span[1]})
        inside = [edge for edge in edges if span[0] <= edge <= span[1]]
        for start, end in zip([span[0], *inside], inside):
            if end > start:
                yield self.of(start), end - start


def _named(place: Place, row: Row, trace: LineTrace, modules: dict[int, Row]) -> Row:
    line, module = place
    file, number, function = _site(trace, line)
    return {
        "file": file,
        "line": number,
        "function": function,
        "module": modules[module]["name"] if module in modules else "",
        **row,
    }


def _site(trace: LineTrace, line: int) -> tuple[str, int, str]:
    if line < 0:
        return "", 0, ""
    code, number = trace.keys[line]
    return code.co_filename, number, code.co_name


def _runs(trace: LineTrace, charged: set[int]) -> list[Row]:
    """How often each line began, in all recorded steps: of those that are `charged` first, then the most frequent."""
    ranked = sorted(trace.counts.items(), key=lambda item: (item[0] not in charged, -item[1]))[:MOST_ROWS]
    rows = []
    for line, count in ranked:
        file, number, function = _site(trace, line)
        rows.append({"file": file, "line": number, "function": function, "count": count})
    return rows
