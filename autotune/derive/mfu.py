"""MFU: what the products of a step would take at the card's peak rates, of the step."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from autotune.catalogue.devices import Device, named
from autotune.derive.recording_view import RecordingView
from autotune.model.evidence import RUN, Fact

ALIKE = 0.05
"""Steps whose products differ by more are of different sizes: those that were counted stand for no others."""

TERA = 1e12


def facts(view: RecordingView) -> Iterator[Fact]:
    """Facts `step.num_flops` and `device.mfu_share`; nothing where not all of the products could be counted."""
    table = view.recording.lines.get("products") if view.recording.lines else None
    if table is None or table["unknown"] or any(model["compiled"] for model in view.recording.models):
        return
    totals = [sum(step.values()) for step in table["steps"]]
    if not totals or not min(totals) or max(totals) > (1 + ALIKE) * min(totals):
        return
    yield Fact("step.num_flops", RUN, round(sum(totals) / len(totals)))
    card = named(view.recording.device["name"]) if view.recording.device is not None else None
    seconds = [_seconds_at_peak(step, card) for step in table["steps"]] if card is not None else [None]
    known = [one for one in seconds if one is not None]
    step_ms = view.window.without_ms("checkpoint", "evaluation") if view.window is not None else 0.0
    if len(known) == len(seconds) and step_ms > 0:
        yield Fact("device.mfu_share", RUN, 1000 * sum(known) / len(known) / step_ms)


def _seconds_at_peak(step: Mapping[str, int], card: Device) -> float | None:
    """None where the card's rate for one of the element types is not known."""
    rates = {"bfloat16": card.bf16, "float16": card.fp16, "float32": card.fp32, "tf32": card.tf32 or card.fp32}
    if any(not rates.get(kind) for kind in step):
        return None
    return sum(number / ((rates[kind] or 0.0) * TERA) for kind, number in step.items())
