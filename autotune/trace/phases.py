"""The phases of the steps of a trace, as the probe's hooks would have seen them, and the device's clock."""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence

from autotune.model.recording import Event
from autotune.trace.host import Host, Node, is_backward
from autotune.trace.read import Activity, HostEvent

TRAINS = 3
"""The flag of a forward with gradients in training mode."""

PLACE = re.compile(r"(?P<file>.+?):(?P<line>\d{1,9}) \((?P<function>.*)\)")
"""A line of the user's, and no range of record_function."""


def events(host: Host, activities: Sequence[Activity], start: int, end: int) -> tuple[Event, ...]:
    """Those that begin from `start` to `end` (ns); they nest or are disjoint. Of a sync the ref is its number in
    `known_syncs`, of all others 0."""
    fetches = [Event("fetch", one.start_ns, one.end_ns, 0, 1) for one in host.fetches]
    updates = [Event("optimizer", one.start_ns, one.end_ns, 0) for one in host.updates]
    inside = [*_backwards(host, [*fetches, *updates])]
    backwards = [Event("backward", a, b) for a, b in inside]
    whole = [*fetches, *updates, *backwards, *_forwards(host, backwards, [*fetches, *updates])]
    copies = [Event("h2d", one.start_ns, one.end_ns) for one in _copies(host, activities)]
    syncs = [
        Event("sync", one.event.start_ns, one.event.end_ns, number) for number, one in enumerate(known_syncs(host))
    ]
    again = [Event("recompute", a, b) for a, b in host.recomputes if any(x <= a and b <= y for x, y in inside)]
    within = [*whole, *again, *(one for one in (*copies, *syncs) if _nests(one, [*whole, *again]))]
    kept = [event for event in within if start <= event.start_ns < end]
    return tuple(sorted(kept, key=lambda event: (event.start_ns, -event.end_ns)))


def known_syncs(host: Host) -> list[Node]:
    """Calls that wait, of which the trace tells the user's line."""
    return [node for node in host.syncs if PLACE.fullmatch(node.place)]


def marks(
    host: Host, activities: Sequence[Activity], phases: Iterable[Event], edges: Sequence[int]
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
        (host.launches[one.correlation].at_ns, one.start_ns + one.ns)
        for one in activities
        if one.stream == stream and one.correlation in host.launches
    )
    instants = {*edges, *(at for one in phases for at in (one.start_ns, one.end_ns))}
    place, reached = 0, 0
    origin: int | None = None
    for at in sorted(at for at in instants if edges[0] <= at <= edges[-1]):
        while place < len(launched) and launched[place][0] < at:
            reached = max(reached, launched[place][1])
            place += 1
        device = max(at, reached)
        origin = device if origin is None else origin
        yield at, device - origin


def _backwards(host: Host, between: Sequence[Event]) -> Iterator[tuple[int, int]]:
    """From the first node of a backward pass to its last: the thread that called it starts nothing meanwhile."""
    threads = {event.thread for event in host.backwards}
    called = [node.event.start_ns for node in host.operators if node.event.thread not in threads]
    cuts = sorted([*called, *(event.start_ns for event in between)])
    begin = last = None
    for node in host.backwards:
        if begin is None or last is None:
            begin, last = node.start_ns, node.end_ns
        elif _any_between(cuts, last, node.start_ns):
            yield begin, last
            begin, last = node.start_ns, node.end_ns
        last = max(last, node.end_ns)
    if begin is not None and last is not None:
        yield begin, last


def _forwards(host: Host, backwards: Sequence[Event], others: Sequence[Event]) -> Iterator[Event]:
    """Before each backward, from the first operator after what came last to the backward's begin."""
    ends = sorted(one.end_ns for one in (*others, *backwards))
    starts = [node.event.start_ns for node in host.operators if not is_backward(node.event)]
    for one in backwards:
        place = bisect_right(ends, one.start_ns)
        first = bisect_left(starts, ends[place - 1]) if place else 0
        if first < len(starts) and starts[first] < one.start_ns:
            yield Event("forward", starts[first], one.start_ns, 0, TRAINS)


def _copies(host: Host, activities: Iterable[Activity]) -> list[HostEvent]:
    """The outermost operators that copy to the device."""
    found = {}
    for one in activities:
        launched = host.launches.get(one.correlation)
        if one.kind == "copy" and "HtoD" in one.name and launched is not None and launched.outermost is not None:
            found[launched.outermost.start_ns] = launched.outermost
    return [found[at] for at in sorted(found)]


def _nests(event: Event, others: Iterable[Event]) -> bool:
    """Whether it lies in, around or beside each of `others`, and no edge of one cuts the other."""
    a, b = event.start_ns, event.end_ns
    return not any(a < one.start_ns < b < one.end_ns or one.start_ns < a < one.end_ns < b for one in others)


def _any_between(instants: Sequence[int], start: int, end: int) -> bool:
    place = bisect_left(instants, start)
    return place < len(instants) and instants[place] < end
