"""The what-if probes after the window: micro-batches of other sizes, and what other modules make of the rest."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from statistics import fmean, median

from msgspec import Struct

from autotune.derive import loader_test, needless_work, replays
from autotune.derive.memory import limit_bytes
from autotune.derive.recording_view import MS, RecordingView
from autotune.derive.replays import SAME, completed
from autotune.derive.step import train_batches
from autotune.derive.summary_statistics import mean, median_interval
from autotune.model.evidence import RUN, Fact
from autotune.model.recording import WhatIf

LEAST_TRIES = 3
"""A size that was tried less often says nothing of its noise."""

DOUBLE = 2


class FitPoint(Struct, frozen=True):
    """A micro-batch of `units` tokens (or samples) took `ms`, give or take `noise_ms`."""

    units: float
    ms: float
    noise_ms: float


class LinearFit(Struct, frozen=True):
    """ms = fixed + per_unit x units.

    `error_share` is the residual, or the noise of the points where that is more, and any drop, of their mean.
    """

    fixed: float
    per_unit: float
    error_share: float


def facts(view: RecordingView, memory_limit_bytes: int | None) -> Iterator[Fact]:
    """Facts `replay.*`, `gradients.*`, `float64.*`, `batch_curve.*`, and those of the loader alone."""
    curve = list(_curve(view))
    yield from (*replays.facts(view), *needless_work.facts(view), *curve)
    if view.window is not None:
        yield Fact("batch_curve.was_measured", RUN, bool(curve))
        yield Fact("batch_curve.double_was_tried", RUN, bool(_doubled(view, "completed", "out_of_memory")))
        yield Fact("batch_curve.double_left_out", RUN, bool(_doubled(view, "left_out")))
    yield from _double(view, memory_limit_bytes)
    yield from loader_test.facts(view)


def _doubled(view: RecordingView, *outcomes: str) -> list[WhatIf]:
    """What came of twice the micro-batch; a try that failed for another reason says nothing of its memory."""
    rows = [w for w in replays.was_replayed(view, "micro_batch") if w.outcome in outcomes]
    return [w for w in rows if w.arguments["factor"] == DOUBLE]


def _double(view: RecordingView, memory_limit_bytes: int | None) -> Iterator[Fact]:
    doubled, left_out = _doubled(view, "completed", "out_of_memory"), _doubled(view, "left_out")
    if doubled:
        yield Fact("batch_curve.double_ran_out", RUN, any(w.outcome == "out_of_memory" for w in doubled))
    needed = [w.result["needed_bytes"] for w in left_out if w.result.get("needed_bytes") is not None]
    if needed:
        yield Fact("batch_curve.double_needs_bytes", RUN, max(needed))
    peaks = [w.result["peak_bytes"] for w in doubled if w.result.get("peak_bytes") is not None]
    if peaks:
        limit = limit_bytes(view.recording, memory_limit_bytes)
        if limit:
            yield Fact("batch_curve.double_used_share", RUN, max(peaks) / limit)


def _curve(view: RecordingView) -> Iterator[Fact]:
    unit, points = _points(view)
    today, line = _today(view, unit), fit(points)
    if line is None or today is None:
        return
    yield Fact("batch_curve.fixed_ms", RUN, line.fixed)
    yield Fact("batch_curve.per_unit_ms", RUN, line.per_unit)
    yield Fact("batch_curve.units", RUN, today)
    yield Fact("batch_curve.fixed_share", RUN, line.fixed / (line.fixed + line.per_unit * today))
    yield Fact("batch_curve.error_share", RUN, line.error_share)


def _points(view: RecordingView) -> tuple[str, list[FitPoint]]:
    """The unit ("tokens" or "samples") that all sizes know, and a point per size, today's from the replay."""
    tried = completed(view, "micro_batch")
    unit = "tokens" if tried and all(w.result.get("tokens") for w in tried) else "samples"
    known = [w for w in tried if w.result.get(unit) and w.result.get("micro_ns")]
    points = {w.arguments["factor"]: _pooled(known, w.arguments["factor"], unit) for w in known}
    today, micro_ms = _today(view, unit), replays.micro_ms(view)
    if points.get(SAME) is None and today is not None and micro_ms:
        points[SAME] = _point(today, micro_ms)
    # Half a batch may leave a core idle: it is for where twice did not fit.
    least = SAME if points.get(DOUBLE) is not None and points.get(SAME) is not None else 0
    return unit, [point for factor, point in points.items() if point is not None and factor >= least]


def _pooled(tried: Sequence[WhatIf], factor: float, unit: str) -> FitPoint | None:
    """All rounds of one size together; None where there were too few tries."""
    rounds = [(w, pace) for w, pace in _paced(tried) if w.arguments["factor"] == factor]
    ms = [ns * pace / MS for w, pace in rounds for ns in w.result["micro_ns"]]
    if len(ms) < LEAST_TRIES:
        return None
    units = sum(w.result[unit] * len(w.result["micro_ns"]) for w, _ in rounds) / len(ms)
    return _point(units, ms)


def _paced(tried: Sequence[WhatIf]) -> Iterator[tuple[WhatIf, float]]:
    """Each try, and by what its round was faster than all: where the machine is slow for a round, all sizes are."""
    of_today = [ns for w in tried if w.arguments["factor"] == SAME for ns in w.result["micro_ns"]]
    pace = 1.0
    for what_if in tried:
        if what_if.arguments["factor"] == SAME:
            pace = median(of_today) / median(what_if.result["micro_ns"])
        yield what_if, pace


def _today(view: RecordingView, unit: str) -> float | None:
    """Units of a micro-batch as it is: those replayed, as the window's others may differ where data is sorted."""
    replayed = [w.result[unit] for w in completed(view, "replay") if w.result.get(unit)]
    return mean(replayed or _units_of_batches(view, unit))


def _units_of_batches(view: RecordingView, unit: str) -> Iterator[int]:
    for batch in train_batches(view):
        value = batch.tokens if unit == "tokens" else batch.num_samples
        if value is not None:
            yield value


def _point(units: float, ms: Sequence[float]) -> FitPoint:
    middle = median(ms)
    interval = median_interval(ms) or (min(ms), max(ms))
    return FitPoint(units, middle, (interval[1] - interval[0]) / 2)


def fit(points: Sequence[FitPoint]) -> LinearFit | None:
    """Least squares through at least two sizes, else None.

    A negative part is noise, not a gift: a line with a negative fixed part goes through the origin, and one on which
    more work takes less time is flat, with the time that it would save as an error.
    """
    if len({point.units for point in points}) < 2:
        return None
    x, y = fmean(p.units for p in points), fmean(p.ms for p in points)
    slope = sum((p.units - x) * (p.ms - y) for p in points) / sum((p.units - x) ** 2 for p in points)
    drop = max(0.0, -slope) * (max(p.units for p in points) - min(p.units for p in points))
    slope = max(0.0, slope)
    fixed = y - slope * x
    if fixed < 0:
        fixed, slope = 0.0, sum(p.units * p.ms for p in points) / sum(p.units**2 for p in points)
    residual = math.sqrt(fmean((p.ms - fixed - slope * p.units) ** 2 for p in points))
    # Two points always lie on a line: then only their own noise says how far to trust it.
    noise = fmean(p.noise_ms for p in points)
    return LinearFit(fixed, slope, (max(residual, noise) + drop) / y)
