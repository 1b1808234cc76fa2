"""What-if: larger micro-batches, as many times less accumulation. Saves the fixed part of those that go away."""

from __future__ import annotations

import math

from autotune.model.evidence import Evidence
from autotune.model.finding import Gain
from autotune.predict.known import Arguments, gain, number

DOUBLE = 2
FACTS = (
    "step.mean_ms",
    "train.accumulation_steps",
    "batch_curve.fixed_ms",
    "batch_curve.per_unit_ms",
    "batch_curve.units",
    "batch_curve.error_share",
    "loader.doubled_growth_share",
)


def batch_curve(arguments: Arguments, evidence: Evidence, subject: str) -> Gain | None:
    """A step of n micro-batches of a + b x units becomes n/k of a + b x k units: a x (n - n/k) less.

    `factor` is k (2 unless told). Where batches are padded to their longest sample, a larger micro-batch holds
    more padding: b x units grows by the share that joined batches of the recorded shapes have on top, for each
    doubling. The interval is the error of the fit. Its lower end may be under 1: a small fixed part is not told
    from none. None without the fit, without that much accumulation, when no fixed part was found, and when it is
    smaller than what comes on top.
    """
    known = [value for name in FACTS if (value := number(evidence, subject, name)) is not None]
    if len(known) < len(FACTS):
        return None
    now, steps, fixed, per_unit, units, error, growth = known
    factor = float(arguments.get("factor", DOUBLE))
    whole, gone = fixed + per_unit * units, steps - steps / factor
    # More than the step itself in the micro-batches that go: the fit is not about this step.
    if steps < factor or whole * gone >= now:
        return None
    grown = (1 + growth) ** math.log2(factor) - 1
    saved, doubt = fixed * gone - per_unit * units * grown * steps, error * whole * gone
    if saved <= 0:
        return None
    most = min(saved + doubt, whole * gone)
    interval = now / (now - saved + doubt), now / (now - most)
    return gain(evidence, subject, now / (now - saved), interval, "modelled")
