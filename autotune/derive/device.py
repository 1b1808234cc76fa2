"""The device and what its kernels did. The kernel facts come from a CUDA profiler window and are absent without it."""

from __future__ import annotations

from collections.abc import Iterator

from autotune.derive.device_profile import idle_shares
from autotune.derive.kernel_kinds import kind_of
from autotune.derive.kernels import PRODUCTS, SOFTMAX, shares, totals
from autotune.derive.lines import line_of_operation
from autotune.derive.recording_view import RecordingView
from autotune.model.evidence import RUN, Fact, Location

SCORES = ("element by element", "reductions")
"""Kinds of kernels that a written attention runs on its scores beside softmax and products: scaling, masks, casts."""


def facts(view: RecordingView) -> Iterator[Fact]:
    """Facts `device.*`."""
    device = view.recording.device
    if device is None:
        return
    yield Fact("device.type", RUN, device["type"])
    capability = device.get("capability")
    if capability:
        yield Fact("device.capability", RUN, tuple(int(part) for part in capability.split(".")))
    values = {**shares(view), **idle_shares(view)}
    if "attention_share" in values:
        values["scores_share"] = _scores_share(view) if values["attention_backend"] == "math" else 0.0
    waiting = str(values.get("other_sync_idle_at", "")).split(" ")[0]
    made_by = {"other_sync_idle_share": (waiting,), "attention_backend": SOFTMAX}
    for name, value in values.items():
        if value is not None:
            line = line_of_operation(view, made_by[name]) if name in made_by else None
            yield Fact(f"device.{name}", RUN, value, (Location(*line),) if line is not None else ())


def _scores_share(view: RecordingView) -> float | None:
    """Softmax, batched products and all that is done element by element, of the kernels' time: more than a fused
    attention could save. 0 where a model states how it attends: that is for rules about its setting."""
    if any(model.get("attention") for model in view.recording.models):
        return 0.0
    table = view.recording.kernels
    kernels = [row for row in totals(table) if row["kind"] == "kernel"] if table is not None else []
    all_ns = sum(row["total_ns"] for row in kernels)
    found_ns = sum(
        row["total_ns"] for row in kernels if row["operator"] in (*SOFTMAX, *PRODUCTS) or kind_of(row) in SCORES
    )
    return found_ns / all_ns if all_ns else None
