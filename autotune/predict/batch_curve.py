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
    "loader.doubled_growth_share",
)


def batch_curve(_arguments: Arguments, evidence: Evidence, subject: str) -> Gain | None:
    """A step of n micro-batches of a + b x units becomes n/2 of a + b x 2 units: a x n/2 less.

    Where batches are padded to their longest sample, a larger micro-batch holds more padding: b x units grows
    by the share that joined batches of the recorded shapes have on top. The interval is the error of the fit.
    Its lower end may be under 1: a small fixed part is not told from none. None without the fit, without
    accumulation, when no fixed part was found, and when it is smaller than what comes on top.
    """
    known = [value for name in FACTS if (value := number(evidence, subject, name)) is not None]
    if len(known) < len(FACTS):
        return None
    now, steps, fixed, per_unit, units, error, growth = known
    whole, halves = fixed + per_unit * units, steps / 2
    # More than the step itself in half of its micro-batches: the fit is not about this step.
    if steps < 2 or whole * halves >= now:
        return None
    saved, doubt = fixed * halves - per_unit * units * growth * steps, error * whole * halves
    if saved <= 0:
        return None
    most = min(saved + doubt, whole * halves)
    interval = now / (now - saved + doubt), now / (now - most)
    return gain(evidence, subject, now / (now - saved), interval, "modelled")
