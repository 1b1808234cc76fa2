"""The host's side of a trace: operators of torch, calls that wait for the device, and which launch was made where.

Events of one thread nest. An operator is told by the outermost one; a launch and a wait belong to the innermost.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence

from msgspec import Struct

from autotune.trace.frames import innermost, user_place
from autotune.trace.read import Activity, HostEvent

STEP = "ProfilerStep"
FETCH = "enumerate(DataLoader)"
OPTIMIZER = "Optimizer.step"

NODE = re.compile(r"autograd::engine::evaluate_function|torch::autograd::AccumulateGrad$|\w+Backward\d*$")
"""A node of the backward pass; releases before 1.9 have no range around it."""

RANGES = (STEP, FETCH, "Optimizer.", "DistributedDataParallel.", "nccl:", "gloo:", "c10d::", "PyTorch Profiler")
"""Ranges that torch itself marks; others are the script's or a library's, and tell where a call is from."""

COLLECTIVES = ("nccl:", "gloo:")
"""The ranges around what a process group queues: a kernel's own name often tells no collective (SendRecv, Generic)."""

WAITS = ("StreamSynchronize", "DeviceSynchronize", "EventSynchronize", "CtxSynchronize")
"""cudaStreamSynchronize, hipDeviceSynchronize ...: calls of the runtime that return when the device has done its work.
The probe's profile knows the same (probe/what_ifs/kernels.py)."""

COPY_CALLS = ("cudaMemcpyAsync", "cudaMemcpy", "hipMemcpyAsync", "hipMemcpy", "hipMemcpyWithStream")

RECOMPUTES = re.compile(r"torch[/\\]utils[/\\]checkpoint\.py\(\d+\): recompute_fn$")
"""The frame in which activations are computed again, of a trace with stacks."""

REENTRANT = "CheckpointFunctionBackward"
"""The operator that computes them again and then runs a backward pass of its own."""

BLOCKED_NS = 500_000
"""A copy is queued in microseconds: a call for one that takes this long waits for it, or for what is before it."""


class Node(Struct, frozen=True):
    """An outermost operator, or a call that waits with the innermost `operator` around it, and the user's `place`: the
    innermost frame that is the user's, else the innermost range of record_function; "" without either."""

    event: HostEvent
    operator: str
    place: str


class Launch(Struct, frozen=True):
    """When something was launched, by which innermost operator of torch or collective ("nccl:all_to_all"; "" for
    neither), within which outermost operator."""

    at_ns: int
    operator: str
    outermost: HostEvent | None


class Host(Struct, frozen=True):
    """All threads together, each field in the order of time."""

    operators: tuple[Node, ...]
    syncs: tuple[Node, ...]
    backwards: tuple[HostEvent, ...]
    """Nodes of the backward pass."""

    recomputes: tuple[tuple[int, int], ...]
    """Start and end of what activation checkpointing computes again."""

    fetches: tuple[HostEvent, ...]
    updates: tuple[HostEvent, ...]
    """Steps of optimizers."""

    lines: tuple[tuple[int, int, str], ...]
    """(start, ns, place): functions of the user's, or ranges of record_function where no stack was recorded."""

    launches: dict[int, Launch]
    """By correlation."""

    names: dict[int, str]
    """Of operators, by their ids."""

    def operator_of(self, activity: Activity) -> str:
        """The innermost operator of torch, or the collective, that launched it; "" where that is not known."""
        if activity.collective:
            return f"{COLLECTIVES[0]}{activity.collective}"
        launched = self.launches.get(activity.correlation)
        if launched is not None:
            return launched.operator
        name = self.names.get(activity.operator_id, "")
        return name if name.startswith("aten::") else ""


def host_of(events: Sequence[HostEvent]) -> Host:
    """The Host of all threads' events."""
    threads: defaultdict[str, list[HostEvent]] = defaultdict(list)
    for event in events:
        threads[event.thread].append(event)
    read = [_Thread(thread) for thread in threads.values()]
    launches: dict[int, Launch] = {}
    names: dict[int, str] = {}
    for thread in read:
        launches |= thread.launches
        names |= thread.names
    return Host(
        operators=_by_time(node for thread in read for node in thread.operators),
        syncs=_by_time(node for thread in read if thread.operators for node in thread.syncs),
        backwards=tuple(sorted((e for e in events if is_backward(e)), key=lambda event: event.start_ns)),
        recomputes=tuple(sorted(_recomputes(events))),
        fetches=_outermost(event for event in events if event.name.startswith(FETCH)),
        updates=_outermost(event for event in events if event.name.startswith(OPTIMIZER)),
        lines=tuple(sorted(line for thread in read if thread.operators for line in thread.lines)),
        launches=launches,
        names=names,
    )


def is_backward(event: HostEvent) -> bool:
    """Whether an operator is a node of the backward pass."""
    return event.kind == "operator" and NODE.match(event.name) is not None


def _recomputes(events: Sequence[HostEvent]) -> Iterator[tuple[int, int]]:
    """Frames of the checkpoint that is not reentrant; of the reentrant one what comes before its own backward pass."""
    nodes = sorted(event.start_ns for event in events if is_backward(event))
    for event in events:
        if event.kind == "python" and RECOMPUTES.search(event.name):
            yield event.start_ns, event.end_ns
        elif event.kind == "operator" and event.name == REENTRANT:
            place = bisect_right(nodes, event.start_ns)
            yield event.start_ns, min([event.end_ns, *nodes[place : place + 1]])


class _Thread:
    """Reads the events of one thread, in the order of time, with those around each."""

    def __init__(self, events: Iterable[HostEvent]) -> None:
        self.operators: list[Node] = []
        self.syncs: list[Node] = []
        self.lines: list[tuple[int, int, str]] = []
        self.launches: dict[int, Launch] = {}
        self.names: dict[int, str] = {}
        self._operators: list[HostEvent] = []
        self._ranges: list[HostEvent] = []
        self._collectives: list[HostEvent] = []
        self._frames: list[tuple[HostEvent, str]] = []
        for event in sorted(events, key=lambda one: (one.start_ns, -one.ns)):
            self._leave(event.start_ns)
            if event.kind == "python":
                self._enter_frame(event)
            elif event.kind == "range":
                self._enter_range(event)
            elif event.kind == "operator":
                self._enter_operator(event)
            else:
                self._read_call(event)

    def _leave(self, at_ns: int) -> None:
        for around in (self._operators, self._ranges, self._collectives):
            while around and around[-1].end_ns <= at_ns:
                around.pop()
        while self._frames and self._frames[-1][0].end_ns <= at_ns:
            self._frames.pop()

    def _enter_frame(self, event: HostEvent) -> None:
        place = user_place(event.name)
        if place:
            self._frames.append((event, place))
            self.lines.append((event.start_ns, event.ns, place))

    def _enter_range(self, event: HostEvent) -> None:
        if event.name.startswith(COLLECTIVES):
            self._collectives.append(event)
        if event.name.startswith(RANGES):
            return
        self._ranges.append(event)
        if not self._frames and not event.stack:
            self.lines.append((event.start_ns, event.ns, _range_name(event)))

    def _enter_operator(self, event: HostEvent) -> None:
        if event.identity >= 0:
            self.names[event.identity] = event.name
        if event.name.startswith(COLLECTIVES):
            self._collectives.append(event)
        if not self._operators:
            self.operators.append(Node(event, "", self._place(event)))
        self._operators.append(event)

    def _read_call(self, event: HostEvent) -> None:
        named = next((one.name for one in reversed(self._operators) if one.name.startswith("aten::")), "")
        if event.correlation >= 0:
            outermost = self._operators[0] if self._operators else None
            collective = self._collectives[-1].name if self._collectives else ""
            self.launches[event.correlation] = Launch(event.start_ns, named or collective, outermost)
        if event.name.endswith(WAITS) or (event.name in COPY_CALLS and event.ns >= BLOCKED_NS):
            around = named or (self._operators[-1].name if self._operators else "")
            self.syncs.append(Node(event, around, self._place(event)))

    def _place(self, event: HostEvent) -> str:
        for one in (event, *reversed(self._operators)):
            if one.stack and (place := innermost(one.stack)):
                return place
        if self._frames:
            return self._frames[-1][1]
        return _range_name(self._ranges[-1]) if self._ranges else ""


def _range_name(event: HostEvent) -> str:
    return f"range {event.name.strip('# ')}"


def _by_time(nodes: Iterable[Node]) -> tuple[Node, ...]:
    return tuple(sorted(nodes, key=lambda node: node.event.start_ns))


def _outermost(ranges: Iterable[HostEvent]) -> tuple[HostEvent, ...]:
    found: list[HostEvent] = []
    for one in sorted(ranges, key=lambda event: (event.start_ns, -event.ns)):
        if not found or one.start_ns >= found[-1].end_ns:
            found.append(one)
    return tuple(found)
