"""A Chrome trace of a diagnosis' window, which Perfetto (ui.perfetto.dev) and chrome://tracing open.

A process of the trace for each rank, with its steps and phases; one for each worker of a DataLoader; one for each
device that was profiled, with its streams. The profiled steps follow the window, and a profiler slows them.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import Any

import msgspec

from autotune.model.recording import Event, Recording

PHASE_NAMES = {
    "iter": "start of an epoch",
    "fetch": "data wait",
    "h2d": "copy to device",
    "sync": "host read",
    "mode": "mode",
    "scaler_skip": "skipped update",
}
"""Of events whose kind is no word of the report."""

STEPS, PHASES, OPERATORS, SYNCS, LINES = range(1, 6)
THREADS = {
    STEPS: "steps",
    PHASES: "phases",
    OPERATORS: "operators (profiled steps)",
    SYNCS: "waits for the device (profiled steps)",
    LINES: "lines (profiled steps)",
}
HOST_THREADS = {"operator": OPERATORS, "sync": SYNCS, "line": LINES}

Row = Mapping[str, Any]


def dumps(recordings: Sequence[Recording]) -> bytes:
    """The trace of one run's Recordings as JSON. Times are in microseconds since the first process began."""
    first = min((one.origin_ns for one in recordings), default=0)
    numbers = itertools.count(1)
    rows: list[Row] = []
    for one in recordings:
        rows += _process(one, one.origin_ns - first, numbers)
    return msgspec.json.encode({"displayTimeUnit": "ms", "traceEvents": rows})


def _process(one: Recording, shift_ns: int, numbers: Iterator[int]) -> Iterator[Row]:
    pid = next(numbers)
    rank = one.process["rank"]
    yield _name("process_name", pid, 0, f"rank {rank}")
    used: set[int] = set()
    for thread, name, start, ns, arguments in (*_steps(one), *_phases(one), *_host(one)):
        used.add(thread)
        yield _slice(name, pid, thread, start + shift_ns, ns, arguments)
    for thread in sorted(used):
        yield _name("thread_name", pid, thread, THREADS[thread])
    yield from _memory(one, pid, shift_ns)
    yield from _workers(one, rank, shift_ns, numbers)
    yield from _device(one, rank, shift_ns, numbers)


Slice = tuple[int, str, int, int, Row]
"""(thread, name, start, ns, arguments)"""


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
        yield HOST_THREADS[row["kind"]], row["name"], start, ns, {key: text for key, text in told.items() if text}


def _memory(one: Recording, pid: int, shift_ns: int) -> Iterator[Row]:
    if one.window is None:
        return
    for steps, size in one.window.memory_bytes:
        if 0 < steps <= len(one.window.step_ends_ns):
            at = (one.window.step_ends_ns[steps - 1] + shift_ns) / 1000
            yield {"ph": "C", "name": "memory", "pid": pid, "ts": at, "args": {"bytes": size}}


def _workers(one: Recording, rank: int, shift_ns: int, numbers: Iterator[int]) -> Iterator[Row]:
    """Batches that workers prepared; those of the training process are in its data wait."""
    known: dict[int, int] = {}
    for fetch in one.fetches:
        if fetch.in_main:
            continue
        if fetch.pid not in known:
            known[fetch.pid] = next(numbers)
            yield _name("process_name", known[fetch.pid], 0, f"worker {len(known)} of rank {rank}")
        took = {"cpu_ms": fetch.cpu_ns / 1e6, "collate_ms": fetch.collate_wall_ns / 1e6}
        arguments = {"samples": fetch.num_samples, **took}
        yield _slice("batch", known[fetch.pid], 1, fetch.start_ns + shift_ns, fetch.wall_ns, arguments)


def _device(one: Recording, rank: int, shift_ns: int, numbers: Iterator[int]) -> Iterator[Row]:
    table = one.kernels
    if table is None:
        return
    pid = next(numbers)
    name = one.device["name"] if one.device else None
    yield _name("process_name", pid, 0, f"device of rank {rank}: {name or 'unknown'} (profiled steps)")
    for stream in sorted({stream for _, stream, _, _ in table["launches"]}):
        yield _name("thread_name", pid, stream, f"stream {stream}")
    for number, stream, start, ns in table["launches"]:
        row = table["rows"][number]
        arguments = {"operator": row["operator"]} if row["operator"] else {}
        yield _slice(row["name"], pid, stream, start + shift_ns, ns, arguments)


def _slice(name: str, pid: int, thread: int, start_ns: int, ns: int, arguments: Row) -> Row:
    row = {"ph": "X", "name": name, "pid": pid, "tid": thread, "ts": start_ns / 1000, "dur": ns / 1000}
    return {**row, "args": arguments} if arguments else row


def _name(kind: str, pid: int, thread: int, text: str) -> Row:
    return {"ph": "M", "name": kind, "pid": pid, "tid": thread, "args": {"name": text}}
