"""What-if: a share of the step goes away, all of it or up to all of it; nothing else gets slower."""

from __future__ import annotations

from autotune.model.evidence import Evidence
from autotune.model.finding import Gain, speedup_without
from autotune.predict.gain_inputs import Arguments, gain, number, step_error

REMOVED_ERROR = 0.15
"""Of the speedup, where all of a share goes."""


def share_removed(arguments: Arguments, evidence: Evidence, subject: str) -> Gain | None:
    """At most 1 / (1 - share) times as fast, at least as fast as now.

    Arguments name facts: `share` that goes away, `left` of it that stays (e.g. padding now and padding when
    grouped by length), `of` which part of the step both are (e.g. "step.compute_share"; without it, of the
    step). `all` = "true": the whole share goes away, as that of a repeated computation does; the interval is then the
    noise of the step alone. None when one of them is unknown or when nothing goes away.
    """
    share = _share(arguments, evidence, subject)
    if share is None or not 0 < share < 1:
        return None
    speedup = speedup_without(share)
    if arguments.get("all") == "true":
        noise = step_error(evidence, REMOVED_ERROR)
        return gain(evidence, subject, speedup, (max(1.0, speedup * (1 - noise)), speedup * (1 + noise)), "modelled")
    return gain(evidence, subject, speedup, (1.0, speedup), "bound")


def _share(arguments: Arguments, evidence: Evidence, subject: str) -> float | None:
    share = number(evidence, subject, arguments["share"])
    left = number(evidence, subject, arguments["left"]) if "left" in arguments else 0.0
    of = number(evidence, subject, arguments["of"]) if "of" in arguments else 1.0
    if share is None or left is None or of is None or left >= 1:
        return None
    # Both are shares of what is computed, which shrinks with the padding: the useful part is what stays the
    # same.
    return (1 - (1 - share) / (1 - left)) * of
