"""What-if: larger micro-batches, as many times less accumulation. Saves the fixed part of those that go away."""

from __future__ import annotations

import math

from autotune.model.evidence import Evidence
from autotune.model.finding import Gain, speedup_without
from autotune.predict.known import FIT_ERROR, Arguments, gain, micro_batches_share, number, step_error

DOUBLE = 2
MODEL_ERROR = 0.1
"""Of the speedup: a micro-batch several times as large lies beyond what was tried."""

FACTS = (
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
    doubling. The interval is the errors of the fit and of the model, and the noise of the step. Its lower end may be
    under 1: a small fixed part is not told from none. None without the fit, without that much accumulation, when no
    fixed part was found, and when it is smaller than what comes on top.
    """
    known = [value for name in FACTS if (value := number(evidence, subject, name)) is not None]
    factor, part = float(arguments.get("factor", DOUBLE)), micro_batches_share(evidence)
    if len(known) < len(FACTS) or known[0] < factor or part is None:
        return None
    _, fixed, per_unit, units, error, growth = known
    gone, grown = 1 - 1 / factor, (1 + growth) ** math.log2(factor)
    now, then = (fixed + per_unit * units * size for size in (1, factor * grown))
    # Both ran after the window, maybe at another speed: only their ratio is of the measured step.
    saved = part * (1 - then / (factor * now)) if now else 0.0
    if saved <= 0:
        return None
    doubt, noise = FIT_ERROR * error * part * gone, step_error(evidence, MODEL_ERROR)
    # No more than whole micro-batches can go.
    low, high = speedup_without(saved - doubt), speedup_without(min(saved + doubt, part * gone))
    return gain(evidence, subject, speedup_without(saved), (low * (1 - noise), high * (1 + noise)), "modelled")
