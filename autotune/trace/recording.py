"""A trace as the Recording that a live profile of the same job would have left, as far as it tells.

The window are the steps that the trace marks. The first is left out where there are more than two: it holds what
happens once. Host times become the device's by the marks that a live window takes, which a trace gives exactly: when
the device had done all that was launched until then.
"""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence

from msgspec import Struct

from autotune.model.recording import Event, Json, RecordedWindow, Recording
from autotune.model.recording_sections import HostCall, HostRow, KernelRow, Kernels
from autotune.trace.frames import innermost, user_place
from autotune.trace.read import Activity, HostEvent, Trace

STEP = "ProfilerStep"
FETCH = "enumerate(DataLoader)"
OPTIMIZER = "Optimizer.step"
NODE = re.compile(r"autograd::engine::evaluate_function|torch::autograd::AccumulateGrad$|\w+Backward\d*$")
"""A node of the backward pass; releases before 1.9 have no range around it."""

COMPILED = ("Torch-Compiled Region", "CompiledFunction", "## Call CompiledFxGraph", "triton_")

WAITS = ("StreamSynchronize", "DeviceSynchronize", "EventSynchronize", "CtxSynchronize")
"""cudaStreamSynchronize, hipDeviceSynchronize ...: calls of the runtime that return when the device has done its work."""

BLOCKED_NS = 500_000
"""A copy is queued in microseconds: a call for one that takes this long waits, for the copy or for what is before it."""

COPY_CALLS = ("cudaMemcpyAsync", "cudaMemcpy", "hipMemcpyAsync", "hipMemcpy", "hipMemcpyWithStream")

MOST_CHARACTERS = 200
FEWEST_OPTIMIZER_STEPS = 3

RANGES = (STEP, FETCH, "Optimizer.", "DistributedDataParallel.", "nccl:", "gloo:", "c10d::", "PyTorch Profiler")
"""Ranges that torch itself marks; others are the script's or a library's, and tell where a call is from."""

FILE = re.compile(r".+:\d+ \(")

TRAINS = 3
"""The flag of a forward with gradients in training mode."""


class Steps(Struct, frozen=True):
    """`edges_ns` are where they begin, and where the last one ends; `are_marked` is False for the whole of a trace."""

    edges_ns: tuple[int, ...]
    are_marked: bool

    @property
    def count(self) -> int:
        return len(self.edges_ns) - 1


def recording(trace: Trace) -> Recording:
    """The Recording of one process. What a trace cannot tell is None or absent."""
    found = steps(trace)
    start, end = found.edges_ns[0], found.edges_ns[-1]
    device = _device_number(trace.activities, start, end)
    activities = [one for one in trace.activities if one.device == device]
    host = Host(trace.host)
    events = sorted(host.events(activities, start, end), key=lambda event: (event.start_ns, -event.end_ns))
    window = RecordedWindow(
        warmup_steps=1,
        steps=found.count,
        start_ns=start,
        end_ns=end,
        step_ends_ns=found.edges_ns,
        steps_by="optimizer",
        ended_by="steps",
        device_clock=tuple(_marks(activities, host, events, found)),
    )
    syncs = [event for event in events if event.kind == "sync"]
    described = trace.devices.get(device)
    return Recording(
        outcome="completed",
        origin_ns=0,
        process={
            "pid": 0,
            "ppid": 0,
            "rank": trace.rank or 0,
            "local_rank": None,
            "world_size": trace.world_size or 1,
            "local_world_size": None,
            "argv": [],
            "executable": "",
            "python": [],
            "main_file": None,
            "num_threads": None,
        },
        error=None,
        software={},
        device={
            "type": "cuda",
            "index": device,
            "name": described.name if described else None,
            "capability": described.capability if described else None,
        },
        window=window,
        events=tuple(events),
        fetches=(),
        batches=(),
        samples=(),
        sampler_interval_ns=0,
        loaders=tuple(_loaders(trace)),
        optimizers=(),
        models=(),
        frameworks={},
        calls=tuple(_calls(host, syncs)),
        torch_state={},
        environment={},
        memory=_memory(trace, device, described.total_bytes if described else None),
        io=None,
        compile=None,
        kernels=_kernels(activities, host, found),
        what_ifs=(),
        side_effects={"blocked": [], "not_isolated": []},
        overhead={"events": 0, "event_ns": 0, "sampler_ns": 0, "setup_ns": 0},
        trace={
            "file": trace.file,
            "are_steps_marked": found.are_marked,
            "has_stacks": trace.has_stacks,
            "knows_rank": trace.rank is not None and trace.world_size is not None,
            "is_compiled": any(event.name.startswith(COMPILED) for event in trace.host)
            or any(one.name.startswith("triton_") for one in activities),
        },
    )


def steps(trace: Trace) -> Steps:
    """The marked steps; else those between the optimizer's; else the whole trace as one."""
    marked = _distinct(event for event in trace.host if event.name.startswith(STEP) and event.kind != "runtime")
    if marked:
        kept = marked[1:] if len(marked) > 2 else marked
        return Steps((*(event.start_ns for event in kept), kept[-1].end_ns), are_marked=True)
    ends = sorted(event.end_ns for event in trace.host if event.name.startswith(OPTIMIZER))
    if len(ends) >= FEWEST_OPTIMIZER_STEPS:
        return Steps(tuple(ends), are_marked=True)
    on_device = [(one.start_ns, one.start_ns + one.ns) for one in trace.activities]
    spans = on_device or [(event.start_ns, event.end_ns) for event in trace.host]
    return Steps((min(start for start, _ in spans), max(end for _, end in spans)), are_marked=False)


def _distinct(ranges: Iterable[HostEvent]) -> list[HostEvent]:
    """The ranges of steps in order; of those with one name (a thread that repeats it) the first."""
    found: dict[str, HostEvent] = {}
    for event in sorted(ranges, key=lambda one: one.start_ns):
        found.setdefault(event.name, event)
    return list(found.values())


def _device_number(activities: Sequence[Activity], start: int, end: int) -> int:
    """The device with the most work in the window: a process may copy to others."""
    work: Counter[int] = Counter()
    for one in activities:
        if start <= one.start_ns < end and one.kind == "kernel":
            work[one.device] += one.ns
    return work.most_common(1)[0][0] if work else (activities[0].device if activities else 0)


class Node(Struct, frozen=True):
    """An outermost operator, a fetch, an optimizer's step or a call that waits, with the user's place around it."""

    event: HostEvent
    operator: str
    place: str


class Host:
    """The host's side, in the order of time: `nodes` are outermost ones, `launches` are by correlation."""

    def __init__(self, events: Sequence[HostEvent]) -> None:
        self.operators: list[Node] = []
        self.syncs: list[Node] = []
        self.lines: list[tuple[int, int, str]] = []
        """(start, ns, place): the user's innermost function on the thread that trains."""

        self.launches: dict[int, tuple[int, str, HostEvent | None]] = {}
        """Correlation -> when it was launched, by which innermost operator of torch, within which outermost one."""

        self.by_identity: dict[int, str] = {}
        self.fetches = [event for event in events if event.name.startswith(FETCH)]
        self.updates = [event for event in events if event.name.startswith(OPTIMIZER)]
        self.backwards: list[HostEvent] = []
        threads: defaultdict[str, list[HostEvent]] = defaultdict(list)
        for event in events:
            threads[event.thread].append(event)
        for thread in threads.values():
            self._read(sorted(thread, key=lambda one: (one.start_ns, -one.ns)))
        self.operators.sort(key=lambda node: node.event.start_ns)
        self.syncs.sort(key=lambda node: node.event.start_ns)
        self.backwards.sort(key=lambda event: event.start_ns)

    def _read(self, events: Sequence[HostEvent]) -> None:
        """The events of one thread, which nest."""
        operators: list[HostEvent] = []
        frames: list[tuple[HostEvent, str]] = []
        ranges: list[HostEvent] = []
        own: list[tuple[int, int, str]] = []
        for event in events:
            for around in (operators, ranges):
                while around and around[-1].end_ns <= event.start_ns:
                    around.pop()
            while frames and frames[-1][0].end_ns <= event.start_ns:
                frames.pop()
            if event.kind == "python":
                place = user_place(event.name)
                if place:
                    frames.append((event, place))
                    own.append((event.start_ns, event.ns, place))
                continue
            if event.kind == "range" and not event.name.startswith(RANGES):
                ranges.append(event)
                if not frames and not event.stack:
                    own.append((event.start_ns, event.ns, _range_name(event)))
            place = innermost(event.stack) if event.stack else frames[-1][1] if frames else ""
            place = place or (_range_name(ranges[-1]) if ranges else "")
            if event.kind == "runtime":
                self._read_call(event, operators, place)
            elif event.kind == "operator":
                if event.identity >= 0:
                    self.by_identity[event.identity] = event.name
                if NODE.match(event.name):
                    self.backwards.append(event)
                if not operators:
                    self.operators.append(Node(event, "", place))
                operators.append(event)
        if any(event.kind == "operator" for event in events):
            self.lines += own

    def _read_call(self, event: HostEvent, operators: Sequence[HostEvent], place: str) -> None:
        named = next((one.name for one in reversed(operators) if one.name.startswith("aten::")), "")
        if event.correlation >= 0:
            self.launches[event.correlation] = (event.start_ns, named, operators[0] if operators else None)
        if event.name.endswith(WAITS) or (event.name in COPY_CALLS and event.ns >= BLOCKED_NS):
            around = named or (operators[-1].name if operators else "")
            if not place and operators:
                place = next((innermost(one.stack) for one in reversed(operators) if one.stack), "")
            self.syncs.append(Node(event, around, place))

    def operator_of(self, activity: Activity) -> str:
        """The innermost operator of torch that launched it; "" where that is not known."""
        launched = self.launches.get(activity.correlation)
        if launched is not None and launched[1]:
            return launched[1]
        name = self.by_identity.get(activity.operator_id, "")
        return name if name.startswith("aten::") and launched is None else ""

    def events(self, activities: Sequence[Activity], start: int, end: int) -> Iterator[Event]:
        """The Recording's events within the window, which nest or are disjoint."""
        fetches = [Event("fetch", one.start_ns, one.end_ns, 0, 1) for one in _outermost(self.fetches)]
        updates = [Event("optimizer", one.start_ns, one.end_ns, 0) for one in _outermost(self.updates)]
        backwards = [Event("backward", a, b) for a, b in self._backwards([*fetches, *updates])]
        forwards = list(self._forwards(backwards, [*fetches, *updates]))
        copies = [Event("h2d", one.start_ns, one.end_ns) for one in self._copies(activities)]
        whole = [*fetches, *updates, *backwards, *forwards]
        for event in (*whole, *(one for one in copies if _nests(one, whole))):
            if start <= event.start_ns < end:
                yield event
        for number, sync in enumerate(self.known_syncs()):
            one = Event("sync", sync.event.start_ns, sync.event.end_ns, number)
            if start <= one.start_ns < end and _nests(one, whole):
                yield one

    def known_syncs(self) -> list[Node]:
        """Calls that wait, of which the trace tells the user's line."""
        return [node for node in self.syncs if FILE.match(node.place)]

    def _backwards(self, between: Sequence[Event]) -> Iterator[tuple[int, int]]:
        """From the first node of a backward pass to its last: the thread that called it starts nothing meanwhile."""
        threads = {event.thread for event in self.backwards}
        called = [node.event.start_ns for node in self.operators if node.event.thread not in threads]
        cuts = sorted([*called, *(event.start_ns for event in between)])
        begin = last = None
        for node in self.backwards:
            if begin is None or last is None:
                begin, last = node.start_ns, node.end_ns
            elif _any_between(cuts, last, node.start_ns):
                yield begin, last
                begin, last = node.start_ns, node.end_ns
            last = max(last, node.end_ns)
        if begin is not None and last is not None:
            yield begin, last

    def _forwards(self, backwards: Sequence[Event], others: Sequence[Event]) -> Iterator[Event]:
        """Before each backward, from the first operator after what came last to the backward's begin."""
        ends = sorted([*(one.end_ns for one in others), *(one.end_ns for one in backwards)])
        starts = [node.event.start_ns for node in self.operators]
        for one in backwards:
            place = bisect_right(ends, one.start_ns)
            after = ends[place - 1] if place else (starts[0] if starts else one.start_ns)
            first = bisect_left(starts, after)
            if first < len(starts) and starts[first] < one.start_ns:
                yield Event("forward", starts[first], one.start_ns, 0, TRAINS)

    def _copies(self, activities: Iterable[Activity]) -> list[HostEvent]:
        """The outermost operators that copy to the device."""
        found = {}
        for one in activities:
            launched = self.launches.get(one.correlation)
            if one.kind == "copy" and "HtoD" in one.name and launched is not None and launched[2] is not None:
                found[launched[2].start_ns] = launched[2]
        return sorted(found.values(), key=lambda event: event.start_ns)


def _range_name(event: HostEvent) -> str:
    return f"range {event.name.strip('# ')}"


def _outermost(ranges: Iterable[HostEvent]) -> list[HostEvent]:
    found: list[HostEvent] = []
    for one in sorted(ranges, key=lambda event: (event.start_ns, -event.ns)):
        if not found or one.start_ns >= found[-1].end_ns:
            found.append(one)
    return found


def _nests(event: Event, others: Iterable[Event]) -> bool:
    """Whether it lies in, around or beside each of `others`, and no edge of one cuts the other."""
    a, b = event.start_ns, event.end_ns
    return not any(a < one.start_ns < b < one.end_ns or one.start_ns < a < one.end_ns < b for one in others)


def _any_between(instants: Sequence[int], start: int, end: int) -> bool:
    place = bisect_left(instants, start)
    return place < len(instants) and instants[place] < end


def _marks(
    activities: Sequence[Activity], host: Host, events: Sequence[Event], found: Steps
) -> Iterator[tuple[int, int]]:
    """The device's clock at the window's edges and at both ends of each phase: the stream that trains had done by then
    what was launched before, and nothing is done before it is launched."""
    work: Counter[int] = Counter()
    for one in activities:
        if one.kind == "kernel" and "nccl" not in one.name.lower():
            work[one.stream] += one.ns
    if not work:
        return
    stream = work.most_common(1)[0][0]
    launched = sorted(
        (host.launches[one.correlation][0], one.start_ns + one.ns)
        for one in activities
        if one.stream == stream and one.correlation in host.launches
    )
    instants = {*found.edges_ns, *(at for one in events for at in (one.start_ns, one.end_ns))}
    place, reached = 0, 0
    origin: int | None = None
    for at in sorted(at for at in instants if found.edges_ns[0] <= at <= found.edges_ns[-1]):
        while place < len(launched) and launched[place][0] < at:
            reached = max(reached, launched[place][1])
            place += 1
        device = max(at, reached)
        origin = device if origin is None else origin
        yield at, device - origin


def _loaders(trace: Trace) -> Iterator[Json]:
    """The DataLoader of the trace: all that its iterator's name tells."""
    names = {event.name for event in trace.host if event.name.startswith(FETCH)}
    if not names:
        return
    arguments = {"num_workers": 0} if all("_SingleProcess" in name for name in names) else {}
    yield {
        "id": 0,
        "site": {"file": "", "line": 0, "function": "", "is_user": False},
        "arguments": arguments,
        "given": [],
        "dataset": {"type": "", "module": "", "length": None, "map_style": True},
        "sampler": "",
        "num_batches": None,
        "wraps": None,
        "pad_id": None,
        "path": None,
        "max_length": None,
    }


def _calls(host: Host, syncs: Sequence[Event]) -> Iterator[HostCall]:
    in_window = {event.ref for event in syncs}
    for number, node in enumerate(host.known_syncs()):
        file, _, rest = node.place.rpartition(":")
        line, _, function = rest.partition(" ")
        site = {"file": file, "line": int(line), "function": function.strip("()"), "is_user": True}
        yield HostCall(
            kind="sync",
            site=site,  # type: ignore[typeddict-item]
            count=1,
            in_window=int(number in in_window),
            total_ns=node.event.ns,
            is_library=False,
        )


def _memory(trace: Trace, device: int, total: int | None) -> dict[str, int | None]:
    allocated = [size for _, number, size in trace.memory if number == device]
    return {"peak_allocated_bytes": max(allocated, default=None), "total_bytes": total} if allocated or total else {}


def _kernels(activities: Sequence[Activity], host: Host, found: Steps) -> Kernels:
    start, end = found.edges_ns[0], found.edges_ns[-1]
    rows: dict[tuple[str, str, str], int] = {}
    launches = []
    for one in activities:
        if start <= one.start_ns < end:  # as a live profile has it: what starts within
            key = (one.name[:MOST_CHARACTERS], host.operator_of(one), one.kind)
            ns = min(one.ns, end - one.start_ns)
            launches.append((rows.setdefault(key, len(rows)), one.stream, one.start_ns, ns))
    host_rows: dict[tuple[str, str, str, str], int] = {}
    told: list[tuple[int, int, int]] = []

    def tell(name: str, operator: str, kind: str, place: str, begin: int, ns: int) -> None:
        if begin < end and begin + ns > start:
            key = (name[:MOST_CHARACTERS], operator, kind, place)
            told.append((host_rows.setdefault(key, len(host_rows)), begin, ns))

    for node in host.operators:
        tell(node.event.name, "", "operator", node.place, node.event.start_ns, node.event.ns)
    for node in host.syncs:
        tell(node.event.name, node.operator, "sync", node.place, node.event.start_ns, node.event.ns)
    for begin, ns, place in host.lines:
        tell(place, "", "line", place, begin, ns)
    return Kernels(
        steps=found.count,
        start_ns=start,
        end_ns=end,
        rows=[KernelRow(name=name, operator=operator, kind=kind) for name, operator, kind in rows],  # type: ignore[typeddict-item]
        launches=launches,
        host_rows=[_host_row(*key) for key in host_rows],
        host=sorted(told, key=lambda one: one[1]),
    )


def _host_row(name: str, operator: str, kind: str, place: str) -> HostRow:
    row = HostRow(name=name, operator=operator, kind=kind)  # type: ignore[typeddict-item]
    return HostRow(**row, place=place) if place else row
