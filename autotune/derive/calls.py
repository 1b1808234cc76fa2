"""Calls in the step path that cost time without training: empty_cache, gc.collect, host reads of the device."""

from __future__ import annotations

from collections.abc import Iterator

from autotune.derive.kernels import user_sync_idle_share
from autotune.derive.recording_view import RecordingView
from autotune.model.evidence import RUN, Fact
from autotune.model.recording import Json


def facts(view: RecordingView) -> Iterator[Fact]:
    """Facts `calls.*`. The probe wraps empty_cache and gc.collect in every run: none seen is 0 calls."""
    if view.window is None:
        return
    for kind in ("empty_cache", "gc"):
        yield from _kind(view, kind, view.window.steps, view.window.wall_ns)
    if view.recording.device and view.recording.device["type"] == "cuda":
        syncs = sum(call["in_window"] for call in _called(view, "sync") if not call["is_library"])
        yield Fact("calls.user_syncs_per_step", RUN, syncs / view.window.steps)
    idle = user_sync_idle_share(view)
    if idle is not None:
        yield Fact("calls.user_sync_idle_share", RUN, idle)


def _kind(view: RecordingView, kind: str, steps: int, wall_ns: int) -> Iterator[Fact]:
    calls = _called(view, kind)
    spent_ns = sum(node.end_ns - node.start_ns for node, _ in view.in_window(kind) if node.outermost)
    yield Fact(f"calls.{kind}_per_step", RUN, sum(call["in_window"] for call in calls) / steps)
    yield Fact(f"calls.{kind}_share", RUN, spent_ns / wall_ns)
    if calls:
        most = max(calls, key=lambda call: call["in_window"])
        yield Fact(f"calls.{kind}_by_library", RUN, bool(most["is_library"]))


def _called(view: RecordingView, kind: str) -> list[Json]:
    return [call for call in view.recording.calls if call["kind"] == kind and call["in_window"]]
