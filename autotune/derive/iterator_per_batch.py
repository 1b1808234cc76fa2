"""A loader that is started again for every batch: `next(iter(loader))` in the step."""

from __future__ import annotations

from collections.abc import Iterator

from autotune.derive.loader import loader_test_ms
from autotune.derive.loaders import LoaderSubject
from autotune.derive.recording_view import MS, MeasuredWindow, RecordingView
from autotune.model.evidence import RUN, Fact

MOST_BATCHES = 1.1
"""Batches that come from one iterator on average, where each gives one."""


def facts(view: RecordingView) -> Iterator[Fact]:
    """Facts `step.starts_loader` and `step.loader_start_share`; nothing without a window, or a train loader in it."""
    loader, window = view.train, view.window
    if loader is None or window is None or not view.train_fetches():
        return
    starts = sum(node.event.ref in loader.iterated for node, _ in view.in_window("iter"))
    per_epoch = loader.timed["num_batches"] or loader.own["num_batches"]
    starts_each = starts * MOST_BATCHES >= len(view.train_fetches()) and per_epoch != 1
    yield Fact("step.starts_loader", RUN, starts_each)
    saved_ms = _saved_ms(view, loader, window) if starts_each else None
    if saved_ms is not None:
        yield Fact("step.loader_start_share", RUN, max(0.0, saved_ms / window.mean_ms))


def _saved_ms(view: RecordingView, loader: LoaderSubject, window: MeasuredWindow) -> float | None:
    """What a step waits for batches, less what preparing them takes where this process does it.

    Workers that live on prepare them meanwhile, at the best.
    """
    waited_ns = sum(
        own for kind in ("iter", "fetch") for node, own in view.in_window(kind) if node.event.ref in loader.iterated
    )
    alone = 0.0 if loader.num_workers else loader_test_ms(view, loader).get(0)
    per_step = len(view.train_fetches()) / window.steps
    return None if alone is None else waited_ns / MS / window.steps - alone * per_step
