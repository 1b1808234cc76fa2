"""What the device did in the profiled steps, and what the host did while it was idle."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence

from autotune.derive.intervals import Stretch, common, merged, total, without
from autotune.derive.kernel_kinds import kind_of
from autotune.derive.kernels import (
    busy,
    communication,
    exposed_by_collective,
    exposed_communication,
    gaps_after_reads,
    idle,
    shares,
    totals,
    user_sync_idle_share,
)
from autotune.derive.recording_view import MS, MeasuredWindow, RecordingView
from autotune.model.recording import Json
from autotune.model.report import (
    LAUNCHING,
    DeviceCollective,
    DeviceCopies,
    DeviceProfile,
    DeviceSync,
    IdlePart,
    KernelGroup,
)

OWN_CAUSE = {"data_wait": ("iter", "fetch"), "save": ("checkpoint",), "evaluation": ("evaluation",)}
"""Idle time within these events of the Recording has their cause, whatever the host's operators did."""

QUEUED_NS = 20_000
"""A gap as short as this between two kernels that were both queued is the device's own."""

LONG_NS = 1_000_000
"""A launch from Python takes 5 to 100 microseconds, and a few times that beside a profiler: a gap as long as this is
time in which the host does something else."""

MOST_PARTS = 12
"""Of one kind; the rest of it becomes one part without a name."""


def profile(view: RecordingView) -> DeviceProfile | None:
    """The DeviceProfile of one process; None without profiled steps."""
    table = view.recording.kernels
    if table is None:
        return None
    span_ns = table["end_ns"] - table["start_ns"]
    rows = totals(table)
    kernels = [row for row in rows if row["kind"] == "kernel"]
    count = sum(row["count"] for row in kernels)
    kernel_ns = sum(row["total_ns"] for row in kernels)
    steps = table["steps"]
    return DeviceProfile(
        rank=view.recording.process["rank"],
        steps=steps,
        step_ms=span_ns / steps / MS,
        busy_share=total(busy(table)) / span_ns,
        communication_share=total(communication(table)) / span_ns,
        exposed_share=total(exposed_communication(table)) / span_ns,
        collectives=tuple(DeviceCollective(kind, ns / span_ns) for kind, ns in exposed_by_collective(table).items()),
        kernels_per_step=count / steps,
        mean_kernel_us=kernel_ns / count / 1e3 if count else None,
        streams=len({stream for row, stream, _, _ in table["launches"] if rows[row]["kind"] == "kernel"}),
        idle=tuple(idle_parts(view, table)),
        kernels=tuple(_groups(kernels, kernel_ns, steps)),
        copies=tuple(_copies(rows, steps)),
        syncs=tuple(_syncs(table, steps)),
    )


def idle_shares(view: RecordingView) -> Mapping[str, float | str]:
    """Facts by name: the idle time of the device by what the host did, of the step; and where most of it is launching.

    A profiler slows the host, and with it every gap: the idle time of the measured step is divided among the gaps. The
    step of a trace is the profiled one.
    """
    table, window, found = view.recording.kernels, view.window, profile(view)
    if table is None or window is None or found is None or not found.idle:
        return {}
    kinds: Counter[str] = Counter()
    for part in found.idle:
        kinds[part.kind] += part.share  # type: ignore[assignment]  # a Counter of shares
    scale = 1.0 if view.recording.trace is not None else _scale(view, window, kinds)
    launching = sum(kinds[kind] for kind in LAUNCHING)
    values: dict[str, float | str] = {
        "launch_idle_share": scale * launching,
        "other_sync_idle_share": max(0.0, scale * kinds["sync"] - (user_sync_idle_share(view) or 0.0)),
    }
    # Waits of the script's own reads are another fact's.
    others = without(_unexplained(view, table)[1], merged(gaps_after_reads(view)))
    launches = [(part.name, part.place) for part in found.idle if part.kind in LAUNCHING]
    waits = [place for place, ns in _after_syncs(table, others)[0].most_common() if ns > 0]
    for name, places in (("launch_idle_at", launches), ("other_sync_idle_at", waits)):
        largest = next((place for place in places if any(place)), None)
        if largest is not None:
            values[name] = " in ".join(part for part in largest if part)
    return values


def _scale(view: RecordingView, window: MeasuredWindow, kinds: Mapping[str, float]) -> float:
    """Idle time of the measured step outside the waits with a cause of their own, to that of the profiled one: at most
    1, as a profiler slows the host."""
    busy_share = shares(view).get("busy_share")
    profiled = sum(kinds[kind] for kind in (*LAUNCHING, "host", "sync", "copy"))
    if not isinstance(busy_share, float) or profiled <= 0:
        return 0.0
    waited_ms = window.phase_ms("data_wait") or 0.0
    idle_share = max(0.0, 1 - busy_share - waited_ms / window.without_ms("checkpoint", "evaluation"))
    return min(1.0, idle_share / profiled)


def idle_parts(view: RecordingView, table: Json) -> Iterator[IdlePart]:
    """The idle time by what the host did, the largest part first; nothing where the host was not recorded."""
    if "host" not in table:
        return
    span_ns = table["end_ns"] - table["start_ns"]
    found, left = _unexplained(view, table)
    after, left = _after_syncs(table, left)
    found += _named("sync", after, span_ns)
    own = _host_work(table, left)
    found += _named("host", _within(table, "operator", own) + _python(table, _outside_operators(table, own)), span_ns)
    left = without(left, own)
    found += _named("operator", _within(table, "operator", left), span_ns)
    found += _named("python", _python(table, _outside_operators(table, left)), span_ns)
    yield from sorted(found, key=lambda part: -part.share)


def _unexplained(view: RecordingView, table: Json) -> tuple[list[IdlePart], list[Stretch]]:
    """The idle time with a cause of its own, and the gaps that are left."""
    span_ns = table["end_ns"] - table["start_ns"]
    left = idle(table)
    found: list[IdlePart] = []
    for kind, events in OWN_CAUSE.items():
        waited = merged((one.start_ns, one.end_ns) for one in view.recording.events if one.kind in events)
        found += _part(kind, total(common(left, waited)), span_ns)
        left = without(left, waited)
    rows = table["rows"]
    copying = merged((start, start + ns) for row, _, start, ns in table["launches"] if rows[row]["kind"] == "copy")
    found += _part("copy", total(common(left, copying)), span_ns)
    left = without(left, copying)
    queued, left = _queued(table, left)
    return [*found, *_part("device", queued, span_ns)], left


def _part(kind: str, ns: int, span_ns: int) -> list[IdlePart]:
    return [IdlePart(kind, ns / span_ns)] if ns else []


Named = Counter[tuple[str, str]]
"""Nanoseconds by (name, place)."""


def _named(kind: str, found: Named, span_ns: int) -> Iterator[IdlePart]:
    for (name, place), ns in found.most_common(MOST_PARTS):
        if ns > 0:
            yield IdlePart(kind, ns / span_ns, name, place)
    yield from _part(kind, sum(ns for _, ns in found.most_common()[MOST_PARTS:]), span_ns)


def _host(table: Json, kind: str) -> list[tuple[int, int, int]]:
    rows = table["host_rows"]
    return [one for one in table["host"] if rows[one[0]]["kind"] == kind]


def _queued(table: Json, gaps: Sequence[Stretch]) -> tuple[int, list[Stretch]]:
    """Nanoseconds of the short gaps within a wait: the next kernel was queued already. And the other gaps."""
    waits = merged((start, start + ns) for _, start, ns in _host(table, "sync"))
    found, others, place = 0, [], 0
    for start, end in gaps:
        while place < len(waits) and waits[place][1] < start:
            place += 1
        is_within = place < len(waits) and waits[place][0] < start and end <= waits[place][1]
        if is_within and end - start < QUEUED_NS:
            found += end - start
        else:
            others.append((start, end))
    return found, others


def _after_syncs(table: Json, gaps: Sequence[Stretch]) -> tuple[Named, list[Stretch]]:
    """The gaps that began while a call waited for the device, which had then done all that was queued, and the others
    as far as a call waited in them. And what is left of these.
    """
    rows = table["host_rows"]
    waits = sorted((start, start + ns, row) for row, start, ns in _host(table, "sync"))
    found, others, place = Named(), [], 0
    for gap in gaps:
        while place < len(waits) and waits[place][1] < gap[0]:
            place += 1
        if place < len(waits) and waits[place][0] < gap[0] <= waits[place][1] < gap[1]:
            found[_name(rows[waits[place][2]])] += gap[1] - gap[0]
        else:
            others.append(gap)
    found += _within(table, "sync", others)
    return found, without(others, merged((start, end) for start, end, _ in waits))


def _name(row: Json) -> tuple[str, str]:
    """(name, place) of a row of the host."""
    return f"{row['operator']} ({row['name']})" if row["operator"] else row["name"], row.get("place", "")


def _within(table: Json, kind: str, gaps: Sequence[Stretch]) -> Named:
    """Of the gaps, what lies in the host's rows of one kind; where threads overlap, the one that began first counts."""
    rows, found = table["host_rows"], Named()
    place, covered = 0, 0
    for row, start, ns in sorted(_host(table, kind), key=lambda one: one[1]):
        begin, end = max(start, covered), start + ns
        if end <= begin:
            continue
        covered = end
        while place < len(gaps) and gaps[place][1] <= begin:
            place += 1
        at = place
        while at < len(gaps) and gaps[at][0] < end:
            found[_name(rows[row])] += min(end, gaps[at][1]) - max(begin, gaps[at][0])
            at += 1
    return found


def _host_work(table: Json, gaps: Sequence[Stretch]) -> list[Stretch]:
    """Of the long gaps, what one operator or Python between two of them takes for long. A gap in which the host starts
    one operator after the other is none of its making: on a GPU that programs share, they compute in turns."""
    long = _long(gaps)
    operators = merged((start, start + ns) for _, start, ns in _host(table, "operator") if ns >= LONG_NS)
    return merged([*_long(common(long, operators)), *_long(_outside_operators(table, long))])


def _long(stretches: Iterable[Stretch]) -> list[Stretch]:
    return [(start, end) for start, end in stretches if end - start >= LONG_NS]


def _outside_operators(table: Json, gaps: Sequence[Stretch]) -> list[Stretch]:
    return without(gaps, merged((start, start + ns) for row, start, ns in _host(table, "operator")))


def _python(table: Json, gaps: Sequence[Stretch]) -> Named:
    """The gaps, in which no operator runs, by the innermost function of the user's where stacks tell it."""
    found, place = Named(), 0
    for start, end, name in innermost_lines(table):
        while place < len(gaps) and gaps[place][1] <= start:
            place += 1
        at = place
        while at < len(gaps) and gaps[at][0] < end:
            found["", name] += min(end, gaps[at][1]) - max(start, gaps[at][0])
            at += 1
    found["", ""] += total(gaps) - found.total()
    return found


def innermost_lines(table: Json) -> Iterator[tuple[int, int, str]]:
    """(start, end, place) of the user's functions without what functions within them take; in order."""
    rows = table["host_rows"]
    calls = sorted((start, -(start + ns), rows[row]["name"]) for row, start, ns in _host(table, "line"))
    around: list[tuple[int, str]] = []
    at = 0
    for start, end, name in [*calls, (1 << 62, -(1 << 62), "")]:
        while around and around[-1][0] <= start:
            until, own = around.pop()
            if until > at:
                yield at, until, own
                at = until
        if around and start > at:
            yield at, start, around[-1][1]
        at = max(at, start)
        around.append((-end, name))


def _groups(kernels: Sequence[Json], kernel_ns: int, steps: int) -> Iterator[KernelGroup]:
    groups: dict[str, list[Json]] = {}
    for row in kernels:
        groups.setdefault(kind_of(row), []).append(row)
    made = []
    for kind, rows in groups.items():
        ns = sum(row["total_ns"] for row in rows)
        names: Counter[str] = Counter()
        for row in rows:
            names[row["name"]] += row["total_ns"]
        share = ns / kernel_ns if kernel_ns else 0.0
        made.append(KernelGroup(kind, share, sum(row["count"] for row in rows) / steps, names.most_common(1)[0][0]))
    yield from sorted(made, key=lambda group: -group.share)


def _copies(rows: Sequence[Json], steps: int) -> Iterator[DeviceCopies]:
    kinds: dict[str, list[int]] = {}
    for row in rows:
        if row["kind"] == "copy":
            of = kinds.setdefault(row["name"].removeprefix("Memcpy "), [0, 0])
            of[0] += row["count"]
            of[1] += row["total_ns"]
    for kind, (count, ns) in sorted(kinds.items(), key=lambda item: -item[1][1]):
        yield DeviceCopies(kind, count / steps, ns / steps / MS)


def _syncs(table: Json, steps: int) -> Iterator[DeviceSync]:
    rows = table.get("host_rows", ())
    count: Counter[int] = Counter()
    length: Counter[int] = Counter()
    for row, start, ns in table.get("host", ()):
        if rows[row]["kind"] == "sync" and table["start_ns"] <= start < table["end_ns"]:
            count[row] += 1
            length[row] += ns
    for row, ns in length.most_common():
        one = rows[row]
        yield DeviceSync(one["name"], one["operator"], one.get("place", ""), count[row] / steps, ns / steps / MS)
