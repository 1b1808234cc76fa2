"""What-if: batches hold less padding. Training time is a + b x tokens, and only the latter shrinks."""

from __future__ import annotations

from autotune.model.evidence import RUN, Evidence
from autotune.model.finding import Gain, speedup_without
from autotune.predict.gain_inputs import FIT_ERROR, Arguments, gain, micro_batches_share, number, step_error
from autotune.predict.micro_batch import PADDING_ERROR, padding_ratio, tokens_ratio
from autotune.predict.share_removed import share_removed


def padding(arguments: Arguments, evidence: Evidence, subject: str) -> Gain | None:
    """Useful tokens stay: tokens x (1 - padding now) / (1 - padding left), in what a step spends on micro-batches.

    Arguments as of share_removed: `share` padding now, `left` what stays of it, `of` the part of the step that
    both are of, for the bound that is the answer where nothing was fitted. The interval is the errors of the fit
    and of the model, and the noise of the step. Where the fit does not tell what goes away from nothing, its upper end
    is a bound. None when nothing goes away.
    """
    bound = share_removed(arguments, evidence, subject)
    ratio = padding_ratio(evidence, subject, arguments["share"], arguments["left"])
    part, error = micro_batches_share(evidence), number(evidence, RUN, "batch_curve.error_share")
    tokens = tokens_ratio(evidence, subject, arguments["share"], arguments["left"])
    if bound is None or ratio is None or part is None or error is None or tokens is None:
        return bound
    removed, most = part * (1 - ratio), part * (1 - min(ratio, tokens))
    doubt, noise = FIT_ERROR * error * most, step_error(evidence, PADDING_ERROR)
    low, high = speedup_without(removed - doubt), speedup_without(min(removed + doubt, most))
    if removed <= doubt:
        return gain(evidence, subject, high, (1.0, high), "bound")
    interval = max(1.0, low * (1 - noise)), high * (1 + noise)
    return gain(evidence, subject, speedup_without(removed), interval, "modelled")
