"""What pictures of a window show: three of its steps on a time line, and the lengths of its samples."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence

from autotune.derive import device_clock
from autotune.derive.device_profile import innermost_lines
from autotune.derive.kernels import busy
from autotune.derive.lengths import all_lengths
from autotune.derive.loader import loader_test_ms
from autotune.derive.recording_view import MS, RecordingView
from autotune.derive.step import train_batches
from autotune.derive.timeline import EventNode, moved, nest, segments
from autotune.model.recording import Json
from autotune.model.window_detail import Lane, LaneSpan, LengthBin, Lengths, Timeline, WindowDetail, WorkerCount

STEPS = 3
"""On the time line."""

MOST_BINS = 24
LEAST_SHARE = 0.001
"""Share of the time line; a shorter span is joined to the span before it."""

MOST_WORKERS = 4
"""Lanes of workers."""

Span = tuple[int, int]


def detail(view: RecordingView) -> WindowDetail:
    """All that one Recording tells of it."""
    alone = sorted(loader_test_ms(view, view.train).items()) if view.train is not None else []
    per_step = _batches_per_step(view)
    counts = [WorkerCount(workers, None, ms * per_step) for workers, ms in alone] if per_step else []
    return WindowDetail(timeline(view), lengths(view), tuple(counts))


def timeline(view: RecordingView) -> Timeline | None:
    """Three steps that follow each other; profiled ones where the device was profiled. None without a step."""
    table = view.recording.kernels
    edges = _profiled_edges(view, table) if table is not None else _usual_edges(view)
    if len(edges) < 2:
        return None
    span = edges[0], edges[-1]
    lanes = _profiled_lanes(view, table, span) if table is not None else _live_lanes(view, span)
    return Timeline(
        length_ms=(span[1] - span[0]) / MS,
        step_ends_ms=tuple((edge - span[0]) / MS for edge in edges[1:]),
        lanes=tuple(lane for lane in lanes if lane.spans),
        is_profiled=table is not None,
    )


def lengths(view: RecordingView) -> Lengths | None:
    """The lengths of samples in bins of one width; None where they are not known."""
    known = [batch for batch in train_batches(view) if batch.lengths and batch.width]
    every = all_lengths(known)
    if not every:
        return None
    low, high = min(every), max(every)
    size = max(1, math.ceil((high - low + 1) / MOST_BINS))
    counts = [0] * ((high - low) // size + 1)
    for length in every:
        counts[(length - low) // size] += 1
    computed = sum((batch.width or 0) * len(batch.lengths or ()) for batch in known)
    return Lengths(
        bins=tuple(LengthBin(low + at * size, low + (at + 1) * size - 1, count) for at, count in enumerate(counts)),
        width=max(batch.width or 0 for batch in known),
        pad_share=1 - sum(every) / computed if computed else None,
    )


def _batches_per_step(view: RecordingView) -> float:
    """Of training batches; 0 where none was fetched."""
    return len(view.train_fetches()) / view.window.steps if view.window is not None else 0.0


def _usual_edges(view: RecordingView) -> list[int]:
    """Of the three steps in a row whose time together is the middle one of all such."""
    window = view.window
    if window is None:
        return []
    edges = [window.start_ns, *(end for end in view.step_ends_ns if window.start_ns < end <= window.end_ns)]
    several = [edges[at : at + STEPS + 1] for at in range(max(1, len(edges) - STEPS))]
    ranked = sorted(several, key=lambda one: one[-1] - one[0])
    return ranked[len(ranked) // 2]


def _profiled_edges(view: RecordingView, table: Json) -> list[int]:
    """The first profiled steps: their ends are those of the optimizer's, where these were seen."""
    start, end = table["start_ns"], table["end_ns"]
    ends = [one.end_ns for one in view.recording.events if one.kind == "optimizer" and start < one.end_ns <= end]
    inner = [edge for edge in ends if edge < end][: table["steps"] - 1] if len(ends) == table["steps"] else []
    return [start, *inner, end][: STEPS + 1]


def _live_lanes(view: RecordingView, span: Span) -> Iterator[Lane]:
    yield Lane("host", _phases(view.nodes, span))
    marks = view.recording.window.device_clock if view.recording.window is not None else ()
    if marks and view.window is not None:
        to = device_clock.between(marks, view.window.start_ns, view.window.end_ns)
        yield Lane("device, by phase", _phases(moved(view.nodes, to), span))
    yield from _worker_lanes(view, span)


def _profiled_lanes(view: RecordingView, table: Json, span: Span) -> Iterator[Lane]:
    nodes = nest([event for event in view.recording.events if event.end_ns > span[0] and event.start_ns < span[1]])
    yield Lane("host", _phases(nodes, span))
    yield Lane("device", _spans(((start, end, "busy", "") for start, end in busy(table)), span))
    if "host" in table:
        rows = ((start, end, "line", place) for start, end, place in innermost_lines(table))
        yield Lane("your lines", _spans(rows, span))
    yield from _worker_lanes(view, span)


def _worker_lanes(view: RecordingView, span: Span) -> Iterator[Lane]:
    """What the first workers of the training loader prepared."""
    ids = view.train.ids if view.train is not None else frozenset()
    rows = [row for row in view.recording.fetches if row.loader in ids and not row.in_main]
    pids = list(dict.fromkeys(row.pid for row in rows))[:MOST_WORKERS]
    for number, pid in enumerate(pids):
        spans = ((row.start_ns, row.start_ns + row.wall_ns, "worker", "") for row in rows if row.pid == pid)
        yield Lane(f"loader worker {number}", _spans(spans, span))


def _phases(nodes: Sequence[EventNode], span: Span) -> tuple[LaneSpan, ...]:
    rows = ((start, end, nodes[at].phase if at >= 0 else "other", "") for start, end, at in segments(nodes, span))
    return _spans(rows, span)


def _spans(rows: Iterable[tuple[int, int, str, str]], span: Span) -> tuple[LaneSpan, ...]:
    """Cut at both ends of `span`, and joined where nothing is to be seen between them."""
    least = (span[1] - span[0]) * LEAST_SHARE
    made: list[tuple[int, int, str, str]] = []
    for start, end, kind, place in sorted(rows):
        start, end = max(start, span[0]), min(end, span[1])
        if end <= start:
            continue
        last = made[-1] if made else None
        is_beside = last is not None and start - last[1] < least
        if last is not None and is_beside and (last[2:] == (kind, place) or end - start < least):
            made[-1] = (last[0], max(last[1], end), *last[2:])
        else:
            made.append((start, end, kind, place))
    return tuple(
        LaneSpan((start - span[0]) / MS, (end - span[0]) / MS, kind, place) for start, end, kind, place in made
    )
