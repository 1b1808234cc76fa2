"""What-if: something that interrupts training every N steps comes less often."""

from __future__ import annotations

from msgspec.structs import replace

from autotune.model.evidence import RUN, Evidence
from autotune.model.finding import Gain
from autotune.predict.gain_inputs import Arguments, gain, number, step_error

TARGET_SHARE = 0.01
ROUND_ERROR = 0.5
"""One save or evaluation takes that much longer or shorter than another, beside the same step."""


def amortised(arguments: Arguments, evidence: Evidence, subject: str) -> Gain | None:
    """Gain of spending less on `cost`: "checkpoint" or "evaluation".

    With `factor` = k the interval becomes k times as long: one round then costs s / (k (1 - s) + s) of the
    run, where s is its share now. With `target` (a share; 1 % unless told) the interval grows until that is
    what it costs. The time of a round was measured and the rest is arithmetic; the interval is the noise of
    the step time and of the round. None when the share is unknown or at the target already.
    """
    share = number(evidence, subject, f"{arguments['cost']}.cost_share")
    if share is None or not 0 < share < 1:
        return None
    then = _then(arguments, share)
    if then >= share:
        return None
    interval = _interval(arguments, share, step_error(evidence, ROUND_ERROR))
    found = gain(evidence, subject, _speedup(share, then), interval, "modelled")
    # Its share is one of the whole run, and not of the window.
    planned_s = number(evidence, RUN, "run.planned_s")
    return replace(found, saved_s=None if planned_s is None else planned_s * found.share)


def _then(arguments: Arguments, share: float) -> float:
    if "factor" in arguments:
        return share / (float(arguments["factor"]) * (1 - share) + share)
    return float(arguments.get("target", TARGET_SHARE))


def _speedup(share: float, then: float) -> float:
    """The run without the interruption takes the same time before and after."""
    return (1 - then) / (1 - share)


def _interval(arguments: Arguments, share: float, error: float) -> tuple[float, float]:
    """Were the step `error` longer or shorter beside the same round, its share would be smaller or larger."""
    low, high = (share / (share + (1 - share) * (1 + way)) for way in (error, -error))
    return max(1.0, _speedup(low, _then(arguments, low))), _speedup(high, _then(arguments, high))
