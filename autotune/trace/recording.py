"""A trace as the Recording that a live profile of the same job would have left, as far as it tells.

The window are the steps that the trace marks. The first is left out where there are more than two: it holds what
happens once. So are more of them at the start as long as they take twice as long as those that follow: torch.compile
compiles in them, or cuDNN tries its algorithms. Host times become the device's by the marks that a live window takes,
which a trace gives exactly: when the device had done all that was launched until then.
"""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from statistics import median

from msgspec import Struct

from autotune.model.recording import Event, Fetch, RecordedWindow, Recording
from autotune.model.recording_sections import (
    CallSite,
    HostCall,
    HostRow,
    KernelRow,
    Kernels,
    Loader,
    LoaderArguments,
    RecordedDevice,
    TraceOrigin,
)
from autotune.trace.host import FETCH, OPTIMIZER, STEP, Host, host_of
from autotune.trace.phases import PLACE, events, known_syncs, marks
from autotune.trace.read import Activity, HostEvent, Trace

COMPILED = ("Torch-Compiled Region", "CompiledFunction", "## Call CompiledFxGraph", "triton_")

MOST_CHARACTERS = 200
FEWEST_OPTIMIZER_STEPS = 3
WARM_UP = 2.0
"""Times the median of the later steps."""

FEWEST_STEADY = 2
"""Later steps that it takes to tell: one alone may be cut short by the end of the profile."""

COMPILING = " (dynamo_timed)"
"""The end of the ranges that torch.compile makes while it compiles."""


class Steps(Struct, frozen=True):
    """`edges_ns` are where they begin, and where the last one ends; `are_marked` is False for the whole of a trace.
    `warm_up` is how many at the start were left out because they took longer than the others."""

    edges_ns: tuple[int, ...]
    are_marked: bool
    warm_up: int = 0

    @property
    def count(self) -> int:
        return len(self.edges_ns) - 1


def recording(trace: Trace) -> Recording:
    """The Recording of one process. What a trace cannot tell is None or absent."""
    found = steps(trace)
    start, end = found.edges_ns[0], found.edges_ns[-1]
    device = _device_number(trace.activities, start, end)
    activities = [one for one in trace.activities if one.device == device]
    host = host_of(trace.host)
    phases = events(host, activities, start, end)
    loaders = tuple(_loaders(trace, activities))
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
        device=_device(trace, device),
        window=RecordedWindow(
            warmup_steps=1,
            steps=found.count,
            start_ns=start,
            end_ns=end,
            step_ends_ns=found.edges_ns,
            steps_by="optimizer",
            ended_by="steps",
            device_clock=tuple(marks(host, activities, phases, found.edges_ns)),
        ),
        events=phases,
        fetches=tuple(_fetches(host, loaders)),
        batches=(),
        samples=(),
        sampler_interval_ns=0,
        loaders=loaders,
        optimizers=(),
        models=(),
        frameworks={},
        calls=tuple(_calls(host, phases)),
        torch_state={},
        environment={},
        memory=_memory(trace, device),
        io=None,
        compile=None,
        kernels=_kernels(activities, host, found),
        what_ifs=(),
        side_effects={"blocked": [], "not_isolated": []},
        overhead={"events": 0, "event_ns": 0, "sampler_ns": 0, "setup_ns": 0},
        trace=_origin(trace, found),
    )


def steps(trace: Trace) -> Steps:
    """The marked steps; else those between the optimizer's; else the whole trace as one."""
    marked = _distinct(event for event in trace.host if event.name.startswith(STEP) and event.kind != "runtime")
    if marked:
        kept = marked[1:] if len(marked) > 2 else marked
        return _steady((*(event.start_ns for event in kept), kept[-1].end_ns))
    updates = sorted((event for event in trace.host if event.name.startswith(OPTIMIZER)), key=lambda one: one.start_ns)
    # Of several optimizers, as of a GAN, the first one counts the steps, as in a live run.
    ends = [event.end_ns for event in updates if event.name == updates[0].name]
    if len(ends) >= FEWEST_OPTIMIZER_STEPS:
        return _steady(ends)
    on_device = [(one.start_ns, one.start_ns + one.ns) for one in trace.activities]
    spans = on_device or [(event.start_ns, event.end_ns) for event in trace.host]
    begin, end = min(start for start, _ in spans), max(end for _, end in spans)
    return Steps((begin, max(end, begin + 1)), are_marked=False)


def _steady(edges: Sequence[int]) -> Steps:
    """The marked steps without those of the start that take much longer than the later ones."""
    lengths = [end - start for start, end in itertools.pairwise(edges)]
    left_out = 0
    while len(lengths) > left_out + FEWEST_STEADY and lengths[left_out] >= WARM_UP * median(lengths[left_out + 1 :]):
        left_out += 1
    return Steps(tuple(edges[left_out:]), are_marked=True, warm_up=left_out)


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


def _device(trace: Trace, number: int) -> RecordedDevice:
    """A device of ROCm is "cuda" too, as torch names it."""
    known = trace.devices.get(number)
    return {
        "type": "cuda",
        "index": number,
        "name": known.name if known else None,
        "capability": known.capability if known else None,
    }


def _origin(trace: Trace, found: Steps) -> TraceOrigin:
    names = (*(event.name for event in trace.host), *(one.name for one in trace.activities))
    start, end = found.edges_ns[0], found.edges_ns[-1]
    return {
        "file": trace.file,
        "are_steps_marked": found.are_marked,
        "has_stacks": trace.has_stacks,
        "knows_rank": trace.rank is not None and trace.world_size is not None,
        "is_compiled": any(name.startswith(COMPILED) for name in names),
        "warm_up_steps": found.warm_up,
        "compiles": any(event.name.endswith(COMPILING) and start <= event.start_ns < end for event in trace.host),
    }


def _loaders(trace: Trace, activities: Sequence[Activity]) -> Iterator[Loader]:
    """The DataLoader of the trace: all that its iterator's name and the copies to the device tell."""
    names = {event.name for event in trace.host if event.name.startswith(FETCH)}
    if not names:
        return
    arguments = LoaderArguments()
    if all("_SingleProcess" in name for name in names):
        arguments["num_workers"] = 0
    from_pinned = {"Pinned ->" in one.name for one in activities if one.kind == "copy" and "HtoD" in one.name}
    if len(from_pinned) == 1:
        arguments["pin_memory"] = from_pinned.pop()
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


def _fetches(host: Host, loaders: Sequence[Loader]) -> Iterator[Fetch]:
    """What the training process prepares itself: its CPU time and collation are not known, and no fact uses them."""
    if loaders and loaders[0]["arguments"].get("num_workers") == 0:
        for one in host.fetches:
            yield Fetch(0, 0, one.start_ns, one.ns, 0, 0, 0, 0, in_main=True)


def _calls(host: Host, phases: Iterable[Event]) -> Iterator[HostCall]:
    """The syncs of the user's lines, of which a Recording's event has the number."""
    in_window = {event.ref for event in phases if event.kind == "sync"}
    for number, node in enumerate(known_syncs(host)):
        place = PLACE.fullmatch(node.place)
        assert place is not None
        site = CallSite(file=place["file"], line=int(place["line"]), function=place["function"], is_user=True)
        yield {
            "kind": "sync",
            "site": site,
            "count": 1,
            "in_window": int(number in in_window),
            "total_ns": node.event.ns,
            "is_library": False,
        }


def _memory(trace: Trace, device: int) -> dict[str, int | None]:
    known = trace.devices.get(device)
    total = {"total_bytes": known.total_bytes} if known and known.total_bytes else {}
    own = [(allocated, reserved) for _, number, allocated, reserved in trace.memory if number == device]
    reserved = [size for _, size in own if size is not None]
    peaks = {"peak_allocated_bytes": [size for size, _ in own], "peak_reserved_bytes": reserved}
    return {**total, **{name: max(sizes) for name, sizes in peaks.items() if sizes}}


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
    told = []
    for name, operator, kind, place, begin, ns in _told(host):
        if begin < end and begin + ns > start:
            names = (name[:MOST_CHARACTERS], operator, kind, place)
            told.append((host_rows.setdefault(names, len(host_rows)), begin, ns))
    return {
        "steps": found.count,
        "start_ns": start,
        "end_ns": end,
        "rows": [KernelRow(name=name, operator=operator, kind=kind) for name, operator, kind in rows],  # type: ignore[typeddict-item]
        "launches": launches,
        "host_rows": [_host_row(*names) for names in host_rows],
        "host": sorted(told, key=lambda one: one[1]),
    }


def _told(host: Host) -> Iterator[tuple[str, str, str, str, int, int]]:
    """(name, operator, kind, place, start, ns) of what the host did."""
    for node in host.operators:
        yield node.event.name, "", "operator", node.place, node.event.start_ns, node.event.ns
    for node in host.syncs:
        yield node.event.name, node.operator, "sync", node.place, node.event.start_ns, node.event.ns
    for begin, ns, place in host.lines:
        yield place, "", "line", place, begin, ns


def _host_row(name: str, operator: str, kind: str, place: str) -> HostRow:
    row = HostRow(name=name, operator=operator, kind=kind)  # type: ignore[typeddict-item]
    return HostRow(**row, place=place) if place else row
