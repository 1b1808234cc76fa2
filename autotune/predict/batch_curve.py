"""What-if: twice the micro-batch, half the accumulation. Saves the fixed part of every second micro-batch."""

from __future__ import annotations

from autotune.model.evidence import Evidence
from autotune.model.finding import Gain
from autotune.predict.known import Arguments, gain, number

FACTS = (
    "step.mean_ms",
    "train.accumulation_steps",
    "batch_curve.fixed_ms",
    "batch_curve.per_unit_ms",
    "batch_curve.units",
    "batch_curve.error_share",
)


def batch_curve(_arguments: Arguments, evidence: Evidence, subject: str) -> Gain | None:
    """A step of n micro-batches of a + b x units becomes n/2 of a + b x 2 units: a x n/2 less.

    The interval is the error of the fit. Its lower end may be under 1: a small fixed part is not told from
    none. Where batches are padded to their longest sample, a larger micro-batch also holds more padding,
    which is not in this gain. None without the fit, without accumulation, or when no fixed part was found.
    """
    now, steps, fixed, per_unit, units, error = (number(evidence, subject, name) for name in FACTS)
    if now is None or steps is None or fixed is None or per_unit is None or units is None or error is None:
        return None
    whole, halves = fixed + per_unit * units, steps / 2
    # More than the step itself in half of its micro-batches: the fit is not about this step.
    if steps < 2 or fixed <= 0 or whole * halves >= now:
        return None
    saved, doubt = fixed * halves, error * whole * halves
    most = min(saved + doubt, whole * halves)
    interval = now / (now - saved + doubt), now / (now - most)
    grows = evidence.lookup(subject, "data.padding") == "longest"
    note = "larger batches hold more padding, which is not counted" if grows else ""
    return gain(evidence, subject, now / (now - saved), interval, "modelled", note)
