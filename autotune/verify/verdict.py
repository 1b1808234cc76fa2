"""From an estimate, and from what else the machine did meanwhile, to the verdict."""

from __future__ import annotations

import statistics
from collections.abc import Sequence

from autotune.model.verified import Estimate, Start, Verdict
from autotune.verify.cache import is_uneven
from autotune.verify.contention import disturbances

MARGIN = 1.02
"""A winner is faster by more than this for sure: less is not worth a change, and processes differ by it."""

SAME = 1.05
"""No difference: the speedup lies between 1 / SAME and SAME."""

MOST_DISTURBED = 0.25
"""Share of the starts that may be disturbed."""


def verdict(estimate: Estimate, starts: Sequence[Start]) -> tuple[Verdict, str]:
    """The verdict and, where it is not obvious, why."""
    disturbed = [what for what in disturbances(starts) if what]
    if len(disturbed) > MOST_DISTURBED * len(starts):
        kind = statistics.mode(disturbed)
        return Verdict.CANNOT_TELL, f"{kind} during {disturbed.count(kind)} of {len(starts)} starts"
    if is_uneven(starts):
        return Verdict.CANNOT_TELL, "one side read files from the disk that the other found in memory"
    least, most = _surely(estimate)
    if least > MARGIN:
        return Verdict.FASTER, ""
    if most < 1 / MARGIN:
        return Verdict.SLOWER, ""
    if estimate.low > 1 / SAME and estimate.high < SAME:
        return Verdict.NO_DIFFERENCE, f"the speedup is between {estimate.low:.2f} and {estimate.high:.2f}"
    return Verdict.CANNOT_TELL, f"starts of the same files differ by {estimate.spread:.1%}, too much for this effect"


def _surely(estimate: Estimate) -> tuple[float, float]:
    """Between which speedups it lies for sure; around 1 where that is not told.

    Starts one after the other must be apart at 99 %, for a few that agree by luck look surer than they are, and so must
    what is left of undisturbed steps. The times of pairs in turns must be so at 95 %, and differ at all at 99 %:
    identical files have a winner in less than 1 of 100 runs, if pairs differ like draws of a normal distribution.
    """
    least, most = estimate.surely
    if estimate.is_undisturbed or not estimate.in_turns:
        return estimate.surely if estimate.is_apart else (min(1.0, least), max(1.0, most))
    return (1.0, 1.0) if least <= 1 <= most else (estimate.low, estimate.high)
