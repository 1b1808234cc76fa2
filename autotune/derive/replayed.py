"""Replays of kept batches: as the script is, with other threads, with fused updates, and of half the width."""

from __future__ import annotations

from collections.abc import Iterator
from statistics import median

from autotune.derive.numbers import median_interval
from autotune.derive.step import micro_batches
from autotune.derive.view import MS, View
from autotune.model.evidence import RUN, Fact
from autotune.model.recording import WhatIf

RESIZED = ("micro_batch", "narrow_batch")
"""Batches of another size, of the train loader alone."""


def facts(view: View) -> Iterator[Fact]:
    """Facts `replay.*`; nothing but that there is none when nothing was replayed."""
    interval = median_interval(steps_ns(view))
    if view.window is not None:
        yield Fact("replay.was_measured", RUN, interval is not None)
        yield Fact("replay.determinism_was_tried", RUN, bool(_changed(view, "deterministic")))
    if interval is None:
        return
    yield Fact("replay.step_ms", RUN, median(steps_ns(view)) / MS)
    yield Fact("replay.low_ms", RUN, interval[0] / MS)
    yield Fact("replay.high_ms", RUN, interval[1] / MS)
    yield from _fused(view)
    yield from _freed(view)
    yield from _threads(view)
    yield from _narrow(view)


def completed(view: View, name: str) -> list[WhatIf]:
    """The what-ifs of that name that brought something."""
    return [w for w in tried(view, name) if w.outcome == "completed"]


def tried(view: View, name: str) -> list[WhatIf]:
    """The what-ifs of that name; none of other sizes where a second loader gives each step a batch, which was whole."""
    if name in RESIZED and any(loader.joins and not loader.is_train for loader in view.loaders):
        return []
    return [w for w in view.recording.what_ifs if w.name == name]


def steps_ns(view: View) -> list[int]:
    """Each step of the replay as the script is."""
    return [ns for what_if in completed(view, "replay") for ns in what_if.result.get("step_ns", ())]


def _changed(view: View, name: str) -> list[WhatIf]:
    return [w for w in completed(view, "replay_changed") if name in w.arguments and w.result["step_ns"]]


def _fused(view: View) -> Iterator[Fact]:
    as_is = [ns for what_if in completed(view, "replay") for ns in what_if.result.get("update_ns", ())]
    for what_if in _changed(view, "fused"):
        fused = median(what_if.result["update_ns"])
        if as_is and fused > 0:
            yield Fact("replay.fused_ratio", RUN, median(as_is) / fused)


def _freed(view: View) -> Iterator[Fact]:
    """Without deterministic algorithms, beside as it is."""
    for what_if in _changed(view, "deterministic"):
        saved = 1 - median(what_if.result["step_ns"]) / median(steps_ns(view))
        yield Fact("replay.determinism_share", RUN, max(0.0, saved))


def _threads(view: View) -> Iterator[Fact]:
    """Of one thread, and of as many as there are CPUs; what the script has is the replay itself."""
    tried = {int(w.arguments["threads"]): median(w.result["step_ns"]) / MS for w in _changed(view, "threads")}
    if not tried:
        return
    most = max(tried)
    if 1 in tried:
        yield Fact("replay.one_thread_ms", RUN, tried[1])
    if most > 1:
        yield Fact("replay.most_threads", RUN, most)
        yield Fact("replay.most_threads_ms", RUN, tried[most])


def _narrow(view: View) -> Iterator[Fact]:
    """Micro-batches of half the width beside whole ones, batch by batch; both without the update, once a step."""
    accumulation = micro_batches(view)
    whole = [
        step - update
        for what_if in completed(view, "replay")
        for step, update in zip(what_if.result["step_ns"], what_if.result.get("update_ns", ()), strict=False)
    ]
    for what_if in completed(view, "narrow_batch"):
        pairs = list(zip(what_if.result.get("micro_ns", ()), whole, strict=False))
        if accumulation and pairs and all(step > 0 for _, step in pairs):
            yield Fact("batch_curve.narrow_ratio", RUN, median(ns * accumulation / step for ns, step in pairs))
