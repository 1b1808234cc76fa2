"""What it takes to prepare batches, by the rows that the fetchers left."""

from __future__ import annotations

from statistics import fmean

from autotune.derive.loaders import LoaderSubject
from autotune.derive.recording_view import MS, RecordingView
from autotune.model.recording import Fetch


def steady_rows(view: RecordingView, loader: LoaderSubject) -> list[Fetch]:
    """The batches prepared before the end of the window, without the first of each process (it warms caches up)."""
    window = view.recording.window
    rows = [
        row
        for row in sorted(view.recording.fetches, key=lambda row: row.start_ns)
        if row.loader in loader.ids and (window is None or row.start_ns < window.end_ns)
    ]
    firsts = {row.pid: index for index, row in reversed(list(enumerate(rows)))}
    return [row for index, row in enumerate(rows) if firsts[row.pid] != index]


def wall_ms(view: RecordingView, loader: LoaderSubject) -> float | None:
    """Wall milliseconds to prepare a step's batches one after the other; None where none was seen."""
    return _per_step([row.wall_ns for row in steady_rows(view, loader)], view)


def worker_cpu_ms(view: RecordingView, loader: LoaderSubject) -> float | None:
    """CPU milliseconds that all workers together take for a step's batches; None where none was seen."""
    return _per_step([row.cpu_ns for row in steady_rows(view, loader) if not row.in_main], view)


def _per_step(spans_ns: list[int], view: RecordingView) -> float | None:
    if not spans_ns or view.window is None:
        return None
    return fmean(spans_ns) / MS * len(view.train_fetches()) / view.window.steps
