"""What only pictures show well: three steps on a time line, the lengths of samples, the workers that were tried."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from itertools import pairwise

from autotune.model.report import PHASES, Report
from autotune.model.window_detail import Lane, Lengths, Timeline, WorkerCount
from autotune.report.labels import PHASES as PHASE_NAMES
from autotune.report.note.blocks import (
    Code,
    Dot,
    Figure,
    Key,
    Label,
    Paragraph,
    Picture,
    Rect,
    Section,
    Segment,
    Shape,
    Table,
    Text,
)
from autotune.report.units import percent, step_time

LANE, BAR = 46, 22
"""Pixels of a lane, and of its bars."""

MOST_SPANS = 400
"""Of a lane: a page stays small."""

MOST_ROWS = 12
KINDS = {**PHASE_NAMES, "worker": "prepares a batch", "busy": "kernels run", "line": "your line"}


def timeline(report: Report) -> Iterator[Section]:
    """Steps in time; nothing where none was recorded."""
    found = report.detail.timeline
    if found is None or not found.lanes:
        return
    count = len(found.step_ends_ms)
    noun = "step" if count == 1 else "steps"
    head = f"{count} {noun} in time" if count < 3 else "Three steps in time"
    watched = (Paragraph("A profiler watched these steps and slowed the host: idle time is an upper bound."),)
    figure = Figure(_lanes(found), _lane_table(found), is_folded=True)
    yield Section(head, (figure, *(watched if found.is_profiled else ())))


def _lanes(found: Timeline) -> Picture:
    shapes: list[Shape] = []
    for index, lane in enumerate(found.lanes):
        top = index * LANE
        shapes.append(Label(0, top + 13, lane.name))
        shapes.append(Rect(0, top + 18, 100, BAR, "idle"))
        spans = sorted(lane.spans, key=lambda span: span.start_ms - span.end_ms)[:MOST_SPANS]
        for span in sorted(spans, key=lambda one: one.start_ms):
            x, width = (100 * ms / found.length_ms for ms in (span.start_ms, span.end_ms - span.start_ms))
            what = span.place or KINDS.get(span.kind, span.kind)
            shapes.append(Rect(x, top + 18, width, BAR, span.kind, f"{what} {step_time(span.end_ms - span.start_ms)}"))
    bottom = LANE * len(found.lanes)
    shapes += [
        Segment(100 * end / found.length_ms, 16, 100 * end / found.length_ms, bottom, "axis")
        for end in found.step_ends_ms[:-1]
    ]
    shapes += [
        Label(0, bottom + 14, "0", kind="small"),
        Label(100, bottom + 14, step_time(found.length_ms), "end", "small"),
    ]
    seen = {span.kind for lane in found.lanes for span in lane.spans}
    order = [*PHASES, "busy", "worker", "line"]
    keys = [Key(kind, KINDS[kind]) for kind in order if kind in seen]
    if any(lane.name == "device" for lane in found.lanes):
        keys.append(Key("idle", "idle"))
    names = ", ".join(lane.name for lane in found.lanes)
    ends = ", ".join(map(step_time, found.step_ends_ms))
    return Picture(
        "Steps on a time line",
        f"A lane each for {names}, over {step_time(found.length_ms)}; the steps end at {ends}.",
        bottom + 20,
        tuple(shapes),
        tuple(keys),
    )


def _lane_table(found: Timeline) -> Table:
    rows = tuple(row for lane in found.lanes for row in _lane_rows(lane, found.length_ms))
    return Table(("lane", "what", "time", "share"), rows, (2, 3))


def _lane_rows(lane: Lane, length_ms: float) -> Iterator[tuple[Text, ...]]:
    """What the lane did, most first; of a device also how long it was idle."""
    spent: Counter[tuple[str, str]] = Counter()
    for span in lane.spans:
        spent[span.kind, span.place] += span.end_ms - span.start_ms  # type: ignore[assignment]  # a Counter of times
    for (kind, place), ms in spent.most_common(MOST_ROWS):
        what: Text = Code(place) if place else KINDS.get(kind, kind)
        yield lane.name, what, step_time(ms), percent(ms / length_ms)
    if lane.name == "device":
        ends = [(0.0, 0.0), *((span.start_ms, span.end_ms) for span in lane.spans), (length_ms, length_ms)]
        gaps = [after[0] - before[1] for before, after in pairwise(ends)]
        idle = sum(gap for gap in gaps if gap > 0)
        yield lane.name, f"idle, the longest gap {step_time(max(gaps))}", step_time(idle), percent(idle / length_ms)


def lengths(report: Report) -> Iterator[Section]:
    """How long the samples are, and what they are padded to; nothing where lengths are not known."""
    found = report.detail.lengths
    if found is None or not found.bins:
        return
    padded = "" if found.pad_share is None else f": {percent(found.pad_share)} of the tokens are padding"
    table = Table(
        ("tokens", "samples"),
        tuple((f"{one.low:,} to {one.high:,}", f"{one.samples:,}") for one in found.bins if one.samples),
        (0, 1),
    )
    yield Section(f"Lengths of samples{padded}", (Figure(_histogram(found), table, is_folded=len(table.rows) > 8),))


def _histogram(found: Lengths) -> Picture:
    low, widest = found.bins[0].low, max(found.width or 0, found.bins[-1].high)
    span = max(1, widest - low + 1)
    most = max(one.samples for one in found.bins)
    shapes: list[Shape] = []
    for one in found.bins:
        height = 110 * one.samples / most
        x, width = 98 * (one.low - low) / span, 98 * (one.high - one.low + 1) / span
        hint = f"{one.low:,} to {one.high:,} tokens: {one.samples:,} samples"
        shapes.append(Rect(x, 120 - height, width, height, "useful", hint))
    shapes += [
        Segment(0, 120, 98, 120, "axis"),
        Label(0, 136, f"{low:,} tokens", kind="small"),
        Label(98, 136, f"{widest:,}", "end", "small"),
    ]
    told = ""
    if found.width is not None:
        at = 98 * (found.width - low + 1) / span
        shapes += [Segment(at, 4, at, 120, "limit"), Label(at - 1, 14, f"padded to {found.width:,}", "end")]
        told = f" The widest batch is padded to {found.width:,}."
    total = sum(one.samples for one in found.bins)
    return Picture(
        "Lengths of samples",
        f"{total:,} samples of {low:,} to {found.bins[-1].high:,} tokens, the higher a bar the more samples.{told}",
        144,
        tuple(shapes),
    )


def workers(report: Report) -> Iterator[Section]:
    """The step for each number of workers; nothing where none is predicted."""
    found = report.detail.workers
    if len([one for one in found if one.predicted_ms is not None]) < 2:
        return
    rows = tuple(
        (
            f"{one.workers}{' (now)' if one.is_now else ''}",
            step_time(one.predicted_ms) if one.predicted_ms is not None else "-",
            step_time(one.alone_ms) if one.alone_ms is not None else "-",
        )
        for one in found
    )
    table = Table(("workers", "step, predicted", "loader alone, tried, for a step"), rows, (0, 1, 2))
    yield Section("Workers of the loader", (Figure(_curve(found, report), table),))


def _curve(found: tuple[WorkerCount, ...], report: Report) -> Picture:
    measured = report.step.mean_ms if report.step is not None else 0.0
    most = 1.1 * max(measured, *(ms for one in found for ms in (one.predicted_ms, one.alone_ms) if ms is not None))
    last = max(1, found[-1].workers)

    def at(workers: int, ms: float) -> tuple[float, float]:
        return 3 + 94 * workers / last, 140 - 130 * ms / most

    points = [(one.workers, one.predicted_ms) for one in found if one.predicted_ms is not None]
    shapes: list[Shape] = [Segment(0, 140, 100, 140, "axis")]
    shapes += [Segment(*at(*one), *at(*two), "predicted") for one, two in pairwise(points)]
    shapes += [Dot(*at(count, ms), "predicted", f"{count} workers: {step_time(ms)} predicted") for count, ms in points]
    for one in found:
        if one.alone_ms is not None:
            hint = f"{one.workers} workers: the loader alone {step_time(one.alone_ms)}"
            shapes.append(Dot(*at(one.workers, one.alone_ms), "proof", hint))
        if one.is_now and measured:
            shapes.append(Dot(*at(one.workers, measured), "measured", f"now {step_time(measured)}, measured", 6))
        shapes.append(Label(at(one.workers, 0)[0], 156, str(one.workers), "middle", "small"))
    shapes.append(Label(0, 10, step_time(most), kind="small"))
    told = ", ".join(f"{count}: {step_time(ms)}" for count, ms in points)
    return Picture(
        "The step for each number of workers",
        f"Predicted for each number of workers: {told}.",
        162,
        tuple(shapes),
        (Key("measured", "measured"), Key("predicted", "step, predicted"), Key("proof", "the loader alone, tried")),
    )
