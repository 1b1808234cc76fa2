"""The time of a step on a card that nobody has yet: a roofline over the operators of a fake step, and its launches."""

from __future__ import annotations

from autotune.catalogue.devices import Device
from autotune.model.outlook import ValueRange
from autotune.model.recording import FitStep
from autotune.predict.roofline import operator_ms

LAUNCH_MS = (0.004, 0.030)
"""The host takes so long to launch an operator, at best and at worst: a step is never shorter than its launches."""

EXCHANGED = 3
"""Passes of all gradients or weights over the links at most, of a step among several cards."""


def step_ms(step: FitStep, card: Device, num_devices: int, gradient_bytes: int) -> ValueRange:
    """Milliseconds of `step` on `card`, each of `num_devices` with a micro-batch of its own."""
    least = most = 0.0
    for operations, num_bytes, kind, count in step.work:
        best, worst = operator_ms(operations, num_bytes, kind, card)
        least += count * best
        most += count * worst
    launches = [step.num_operators * each for each in LAUNCH_MS]
    exchanged = 0.0
    if num_devices > 1:
        exchanged = EXCHANGED * gradient_bytes * (1 - 1 / num_devices) / (card.link.gb_per_s * 1e6)
    return ValueRange(max(least, launches[0]), max(most, launches[1]) + exchanged, "assumed")
