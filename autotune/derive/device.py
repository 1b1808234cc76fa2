"""The device and what its kernels did. The kernel facts come from a CUDA profiler window and are absent without it."""

from __future__ import annotations

from collections.abc import Iterator

from autotune.derive.device_profile import idle_shares
from autotune.derive.kernel_kinds import kind_of
from autotune.derive.kernels import PRODUCTS, SOFTMAX, shares, totals
from autotune.derive.lines import line_of_operation
from autotune.derive.recording_view import RecordingView
from autotune.model.evidence import RUN, Fact, Location

SCORES = ("element by element", "reductions", "indexing and embeddings")
"""Kinds of kernels that a written attention runs on its scores beside softmax and products: scaling, masks, casts."""

SDPA = "aten::scaled_dot_product_attention"


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
    made_by = {"other_sync_idle_share": (waiting,), "scores_share": SOFTMAX if values.get("scores_share") else ()}
    for name, value in values.items():
        if value is not None:
            line = line_of_operation(view, made_by[name]) if name in made_by else None
            yield Fact(f"device.{name}", RUN, value, (Location(*line),) if line is not None else ())


def _scores_share(view: RecordingView) -> float | None:
    """Softmax, batched products and all that goes element by element or indexes, of the kernels' time: more than a
    fused attention could save. 0 where torch's own function does it without a fused kernel. None where a model states
    how it attends, which is for rules about its setting, and of a trace, which does not tell of models."""
    table = view.recording.kernels
    if view.recording.trace is not None or any(model.get("attention") for model in view.recording.models):
        return None
    if table is not None and any(row["name"] == SDPA for row in table.get("host_rows", ())):
        return 0.0
    kernels = [row for row in totals(table) if row["kind"] == "kernel"] if table is not None else []
    all_ns = sum(row["total_ns"] for row in kernels)
    found_ns = sum(
        row["total_ns"] for row in kernels if row["operator"] in (*SOFTMAX, *PRODUCTS) or kind_of(row) in SCORES
    )
    return found_ns / all_ns if all_ns else None
