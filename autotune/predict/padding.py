"""What-if: batches hold less padding. Training time is a + b x tokens, and only the latter shrinks."""

from __future__ import annotations

from autotune.model.evidence import Evidence
from autotune.model.finding import Gain
from autotune.predict.known import Arguments, gain, number
from autotune.predict.share_removed import share_removed

FACTS = (
    "step.mean_ms",
    "loader.batches_per_step",
    "batch_curve.per_unit_ms",
    "batch_curve.units",
    "batch_curve.fixed_ms",
    "batch_curve.error_share",
)


def padding(arguments: Arguments, evidence: Evidence, subject: str) -> Gain | None:
    """A micro-batch of a + b x tokens keeps its useful tokens: tokens x (1 - padding now) / (1 - padding left).

    Arguments as of share_removed: `share` padding now, `left` what stays of it, `of` the part of the step that
    both are of. The interval is the error of the fit. Without the fit it is share_removed's bound; None when
    nothing goes away, or when the fit is not about this step.
    """
    bound = share_removed(arguments, evidence, subject)
    known = [value for name in FACTS if (value := number(evidence, subject, name)) is not None]
    now, left = (number(evidence, subject, arguments[key]) for key in ("share", "left"))
    if bound is None or len(known) < len(FACTS) or now is None or left is None:
        return bound
    step, batches, per_unit, units, fixed, error = known
    whole = (fixed + per_unit * units) * batches
    saved = per_unit * units * batches * (1 - (1 - now) / (1 - left))
    if whole >= step * (1 + error) or saved >= step:
        return bound
    doubt = error * whole
    most = min(saved + doubt, whole)
    interval = step / (step - max(0.0, saved - doubt)), step / (step - min(most, 0.99 * step))
    return gain(evidence, subject, step / (step - saved), interval, "modelled")
