"""What-if: batches hold less padding. Training time is a + b x tokens, and only the latter shrinks."""

from __future__ import annotations

from autotune.model.evidence import RUN, Evidence
from autotune.model.finding import Gain, speedup_without
from autotune.predict.known import FIT_ERROR, Arguments, gain, micro_batches_share, number, step_error
from autotune.predict.share_removed import share_removed

MODEL_ERROR = 0.15
"""Of the speedup: time is not quite linear in the width of a batch, attention and caches see to that."""


def padding(arguments: Arguments, evidence: Evidence, subject: str) -> Gain | None:
    """Useful tokens stay: tokens x (1 - padding now) / (1 - padding left), in what a step spends on micro-batches.

    Arguments as of share_removed: `share` padding now, `left` what stays of it, `of` the part of the step that
    both are of, for the bound that is the answer where nothing was fitted. The interval is the errors of the fit
    and of the model, and the noise of the step. None when nothing goes away.
    """
    bound = share_removed(arguments, evidence, subject)
    fixed, error = (number(evidence, RUN, f"batch_curve.{name}_share") for name in ("fixed", "error"))
    now, left = (number(evidence, subject, arguments[name]) for name in ("share", "left"))
    part = micro_batches_share(evidence)
    if bound is None or fixed is None or error is None or now is None or left is None or part is None:
        return bound
    most = part * (1 - (1 - now) / (1 - left))
    removed, doubt, noise = most * (1 - fixed), FIT_ERROR * error * most, step_error(evidence, MODEL_ERROR)
    low, high = speedup_without(removed - doubt), speedup_without(min(removed + doubt, most))
    interval = max(1.0, low * (1 - noise)), high * (1 + noise)
    return gain(evidence, subject, speedup_without(removed), interval, "modelled")
