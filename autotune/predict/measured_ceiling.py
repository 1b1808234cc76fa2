"""What-if: batches come without waiting. Its ceiling was measured by replaying batches from memory."""

from __future__ import annotations

from msgspec import Struct

from autotune.model.evidence import Evidence
from autotune.model.finding import Gain
from autotune.predict.gain_inputs import Arguments, gain, number, step_error
from autotune.predict.share_removed import share_removed

WAIT = "loader.wait_share"
BESIDES = ("step.checkpoint_share", "step.evaluation_share", "step.logging_share")
"""Part of the measured step, but not of a replayed one."""


class _Ceiling(Struct, frozen=True):
    """Milliseconds per step now, without waiting, and the ends of the latter's 90 % interval."""

    now: float
    without: float
    low: float
    high: float


def measured_ceiling(arguments: Arguments, evidence: Evidence, subject: str) -> Gain | None:
    """Step time now / step time with replayed batches, for the wait of this loader.

    The ceiling never exceeds 1 / (1 - wait share) by more than the noise of the step. Without a replay it is the
    bound of the wait's share. Optional argument `share`: the fact with the wait's share (loader.wait_share).
    """
    share = arguments.get("share", WAIT)
    wait = number(evidence, subject, share)
    if wait is None or not 0 < wait < 1:
        return None
    ceiling = _ceiling(evidence, subject, wait)
    if ceiling is None:
        return share_removed({"share": share}, evidence, subject)
    interval = ceiling.now / ceiling.high, ceiling.now / ceiling.low
    return gain(evidence, subject, ceiling.now / ceiling.without, interval, "measured")


def replayed_ms(evidence: Evidence, subject: str) -> float | None:
    """The replayed step with what else belongs to a step; None without a replay."""
    replayed, besides = number(evidence, subject, "replay.step_ms"), _besides_ms(evidence, subject)
    return None if replayed is None else replayed + besides


def _besides_ms(evidence: Evidence, subject: str) -> float:
    now = number(evidence, subject, "step.mean_ms") or 0.0
    return now * sum(number(evidence, subject, name) or 0.0 for name in BESIDES)


def _ceiling(evidence: Evidence, subject: str, wait: float) -> _Ceiling | None:
    names = ("step.mean_ms", "replay.step_ms", "replay.low_ms", "replay.high_ms")
    now, replayed, low, high = (number(evidence, subject, name) for name in names)
    is_known = number(evidence, subject, "step.noise_share") is not None
    if not now or replayed is None or low is None or high is None or not is_known:
        return None
    besides, noise = _besides_ms(evidence, subject), step_error(evidence, 0.0)
    least = now * (1 - wait)
    return _Ceiling(
        now=now,
        without=max(replayed + besides, least),
        low=max((low + besides) * (1 - noise), least * (1 - noise)),
        high=max(high + besides, least) * (1 + noise),
    )
