"""A Chrome trace of a diagnosis' window, which Perfetto (ui.perfetto.dev) opens.

A process of the trace for each rank, with its steps and phases; one for each worker of a DataLoader; one for each
device that was profiled, with its streams. The profiled steps follow the window, and a profiler slows them.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any

import msgspec

from autotune.model.recording import Event, Recording
from autotune.model.recording_sections import Kernels

PHASE_NAMES = {
    "iter": "start of an epoch",
    "fetch": "data wait",
    "h2d": "copy to device",
    "sync": "host read",
    "mode": "mode",
    "scaler_skip": "skipped update",
}
"""Of events whose kind is no word of the report."""

STEPS, PHASES, BATCHES = "steps", "phases", "batches"
HOST = {
    "operator": "operators (profiled steps)",
    "sync": "waits for the device (profiled steps)",
    "line": "lines (profiled steps)",
}
"""What the host did, by the kind of its row."""

Row = Mapping[str, Any]


def dumps(recordings: Sequence[Recording]) -> bytes:
    """The trace of one run's Recordings as JSON. Times are in microseconds since its first event."""
    first = min((one.origin_ns for one in recordings), default=0)
    numbers = itertools.count(1)
    rows: list[Row] = []
    for one in recordings:
        rows += _process(one, one.origin_ns - first, numbers)
    # A trace of a profiler counts since 1970: in microseconds that is more than a float tells apart.
    begin = min((row["ts"] for row in rows if "ts" in row), default=0)
    return msgspec.json.encode({"displayTimeUnit": "ms", "traceEvents": [_in_us(row, begin) for row in rows]})


def _in_us(row: Row, begin_ns: int) -> Row:
    times = {"ts": begin_ns, "dur": 0}
    return {**row, **{key: (row[key] - zero) / 1000 for key, zero in times.items() if key in row}}


def _process(one: Recording, shift_ns: int, numbers: Iterator[int]) -> Iterator[Row]:
    """Rows with times in nanoseconds, of the process, its workers and its device."""
    pid, rank = next(numbers), one.process["rank"]
    yield from _named_process(pid, f"rank {rank}")
    yield from _threads(pid, [*_steps(one), *_phases(one), *_host(one)], shift_ns)
    yield from _memory(one, pid, shift_ns)
    yield from _workers(one, rank, shift_ns, numbers)
    if one.kernels is not None:
        pid, device = next(numbers), one.device["name"] if one.device else None
        yield from _named_process(pid, f"device of rank {rank}: {device or 'unknown'} (profiled steps)")
        yield from _threads(pid, _launches(one.kernels), shift_ns)


Slice = tuple[str, str, int, int, Row]
"""(thread, name, start, ns, arguments)"""


def _threads(pid: int, slices: Iterable[Slice], shift_ns: int) -> Iterator[Row]:
    """The slices of a process, with a thread for each name. Slices of one thread must nest, or a reader cuts or moves
    them: where they do not (two threads ran the backward pass), the thread gets a second row, and so on."""
    by_thread: dict[str, list[Slice]] = {}
    for one in slices:
        by_thread.setdefault(one[0], []).append(one)
    numbers = itertools.count(1)
    for thread, own in by_thread.items():
        for number, row in enumerate(_nested(own), 1):
            tid = next(numbers)
            yield _name("thread_name", pid, tid, thread if number == 1 else f"{thread} ({number})")
            yield {"ph": "M", "name": "thread_sort_index", "pid": pid, "tid": tid, "args": {"sort_index": tid}}
            for _, name, start, ns, arguments in row:
                yield _slice(name, pid, tid, start + shift_ns, ns, arguments)


def _nested(slices: Sequence[Slice]) -> list[list[Slice]]:
    """As few rows as it takes by first fit, in each of which slices nest or are disjoint."""
    rows: list[tuple[list[Slice], list[int]]] = []
    for one in sorted(slices, key=lambda each: (each[2], -each[3])):
        start, end = one[2], one[2] + one[3]
        row, around = next((each for each in rows if _fits(each[1], start, end)), ([], []))
        if not row:
            rows.append((row, around))
        row.append(one)
        around.append(end)
    return [row for row, _ in rows]


def _fits(around: list[int], start: int, end: int) -> bool:
    """Whether a slice lies within the innermost one that has not ended. `around` are their ends; those before `start`
    are taken off."""
    while around and around[-1] <= start:
        around.pop()
    return not around or end <= around[-1]


def _steps(one: Recording) -> Iterator[Slice]:
    if one.window is None:
        return
    ends = one.window.step_ends_ns
    for number, (start, end) in enumerate(itertools.pairwise(ends), 2):
        is_measured = one.window.warmup_steps < number <= one.window.warmup_steps + one.window.steps
        yield STEPS, f"step {number}", start, end - start, {"measured": is_measured}


def _phases(one: Recording) -> Iterator[Slice]:
    for event in filter(partial(_is_live, one), one.events):
        arguments: dict[str, Any] = {}
        if event.kind in ("sync", "collective", "gc", "empty_cache") and 0 <= event.ref < len(one.calls):
            site = one.calls[event.ref]["site"]
            arguments["line"] = f"{site['file']}:{site['line']}"
        name = PHASE_NAMES.get(event.kind, event.kind)
        yield PHASES, name, event.start_ns, event.end_ns - event.start_ns, arguments


def _is_live(one: Recording, event: Event) -> bool:
    """Whether it is of the script as it is: until the window ends, or in the profiled steps. What-ifs change it."""
    spans = [(0, one.window.end_ns)] if one.window else [(0, 1 << 63)]
    if one.kernels is not None:
        spans.append((one.kernels["start_ns"], one.kernels["end_ns"]))
    return any(start <= event.start_ns < end for start, end in spans)


def _host(one: Recording) -> Iterator[Slice]:
    table = one.kernels
    if table is None:
        return
    rows = table.get("host_rows", [])
    for number, start, ns in table.get("host", []):
        row = rows[number]
        told = {"operator": row["operator"], "place": row.get("place", "")}
        yield HOST[row["kind"]], row["name"], start, ns, {key: text for key, text in told.items() if text}


def _memory(one: Recording, pid: int, shift_ns: int) -> Iterator[Row]:
    if one.window is None:
        return
    for steps, size in one.window.memory_bytes:
        if 0 < steps <= len(one.window.step_ends_ns):
            at = one.window.step_ends_ns[steps - 1] + shift_ns
            yield {"ph": "C", "name": "memory", "pid": pid, "ts": at, "args": {"bytes": size}}


def _workers(one: Recording, rank: int, shift_ns: int, numbers: Iterator[int]) -> Iterator[Row]:
    """Batches that workers prepared; those of the training process are in its data wait."""
    by_worker: dict[int, list[Slice]] = {}
    for fetch in one.fetches:
        if not fetch.in_main:
            took = {"cpu_ms": fetch.cpu_ns / 1e6, "collate_ms": fetch.collate_wall_ns / 1e6}
            arguments = {"samples": fetch.num_samples, **took}
            made = (BATCHES, "batch", fetch.start_ns, fetch.wall_ns, arguments)
            by_worker.setdefault(fetch.pid, []).append(made)
    for number, batches in enumerate(by_worker.values(), 1):
        pid = next(numbers)
        yield from _named_process(pid, f"worker {number} of rank {rank}")
        yield from _threads(pid, batches, shift_ns)


def _launches(table: Kernels) -> Iterator[Slice]:
    """What ran on the device, by stream."""
    for number, stream, start, ns in sorted(table["launches"], key=lambda launch: launch[1]):
        row = table["rows"][number]
        yield f"stream {stream}", row["name"], start, ns, {"operator": row["operator"]} if row["operator"] else {}


def _slice(name: str, pid: int, thread: int, start_ns: int, ns: int, arguments: Row) -> Row:
    row = {"ph": "X", "name": name, "pid": pid, "tid": thread, "ts": start_ns, "dur": ns}
    return {**row, "args": arguments} if arguments else row


def _named_process(pid: int, text: str) -> Iterator[Row]:
    yield _name("process_name", pid, 0, text)
    yield {"ph": "M", "name": "process_sort_index", "pid": pid, "tid": 0, "args": {"sort_index": pid}}


def _name(kind: str, pid: int, thread: int, text: str) -> Row:
    return {"ph": "M", "name": kind, "pid": pid, "tid": thread, "args": {"name": text}}
