"""What-if: larger micro-batches, as many times less accumulation. Saves the fixed part of those that go away."""

from __future__ import annotations

from autotune.model.evidence import RUN, Evidence
from autotune.model.finding import Gain, speedup_without
from autotune.predict.gain_inputs import FIT_ERROR, Arguments, gain, micro_batches_share, number, step_error
from autotune.predict.micro_batch import LARGER_ERROR, larger_ratio

DOUBLE = 2


def batch_curve(arguments: Arguments, evidence: Evidence, subject: str) -> Gain | None:
    """A step of n micro-batches of a + b x units becomes n/k of a + b x k units: a x (n - n/k) less.

    `factor` is k (2 unless told). The interval is the errors of the fit and of the model, and the noise of the step.
    Its lower end may be under 1: a small fixed part is not told from none; all of it is where that is smaller than what
    comes on top. None without the fit and without that much accumulation.
    """
    factor, part = float(arguments.get("factor", DOUBLE)), micro_batches_share(evidence)
    steps, error = (number(evidence, RUN, n) for n in ("train.accumulation_steps", "batch_curve.error_share"))
    ratio = larger_ratio(evidence, factor)
    if ratio is None or part is None or error is None or steps is None or steps < factor:
        return None
    gone = 1 - 1 / factor
    # Both ran after the window, maybe at another speed: only their ratio is of the measured step.
    saved = part * (1 - ratio / factor)
    doubt, noise = FIT_ERROR * error * part * gone, step_error(evidence, LARGER_ERROR)
    # No more than whole micro-batches can go.
    low, high = speedup_without(saved - doubt), speedup_without(min(saved + doubt, part * gone))
    return gain(evidence, subject, speedup_without(saved), (low * (1 - noise), high * (1 + noise)), "modelled")
