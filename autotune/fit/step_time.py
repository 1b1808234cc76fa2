"""The time of a step on a card that nobody has yet: a roofline over the operators of a fake step.

An operator takes as long as its products at the card's rate, or its bytes at the card's bandwidth, whichever is more.
How near a run comes to these peaks nobody measured: the range is between two assumed shares of them.
"""

from __future__ import annotations

from autotune.catalogue.devices import Device
from autotune.model.outlook import ValueRange
from autotune.model.recording import FitStep

OF_RATE = (0.30, 0.75)
"""Share of the peak rate of products that large and small ones reach, at least and at most."""

OF_BANDWIDTH = (0.55, 0.90)
LAUNCH_MS = (0.004, 0.030)
"""The host takes so long to launch an operator, at best and at worst: a step is never shorter than its launches."""

EXCHANGED = 3
"""Passes of all gradients or weights over the links at most, of a step among several cards."""


def step_ms(step: FitStep, card: Device, num_devices: int, gradient_bytes: int) -> ValueRange:
    """Milliseconds of `step` on `card`, each of `num_devices` with a micro-batch of its own."""
    least = most = 0.0
    for operations, num_bytes, kind, count in step.work:
        fast, slow = _rates(card, kind)
        least += count * max(
            operations / (fast * 1e9 * OF_RATE[1]), num_bytes / (card.bandwidth * 1e6 * OF_BANDWIDTH[1])
        )
        most += count * max(
            operations / (slow * 1e9 * OF_RATE[0]), num_bytes / (card.bandwidth * 1e6 * OF_BANDWIDTH[0])
        )
    launches = [step.num_operators * each for each in LAUNCH_MS]
    exchanged = 0.0
    if num_devices > 1:
        exchanged = EXCHANGED * gradient_bytes * (1 - 1 / num_devices) / (card.link.gb_per_s * 1e6)
    return ValueRange(max(least, launches[0]), max(most, launches[1]) + exchanged, "assumed")


def _rates(card: Device, kind: str) -> tuple[float, float]:
    """TFLOP/s of products of numbers of type `kind`, at best and at worst: fp32 may run as TF32."""
    if kind in ("bfloat16", "float16"):
        own = card.bf16 if kind == "bfloat16" else card.fp16
        return (own, own) if own is not None else (card.fp32, card.fp32)
    return card.tf32 or card.fp32, card.fp32
