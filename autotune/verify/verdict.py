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
        most = statistics.mode(disturbed)
        return Verdict.CANNOT_TELL, f"{most} during {disturbed.count(most)} of {len(starts)} starts"
    if is_uneven(starts):
        return Verdict.CANNOT_TELL, "one side read files from the disk that the other found in memory"
    surely_low, surely_high = estimate.surely
    if surely_low > MARGIN and estimate.is_apart:
        return Verdict.FASTER, ""
    if surely_high < 1 / MARGIN and estimate.is_apart:
        return Verdict.SLOWER, ""
    if estimate.low > 1 / SAME and estimate.high < SAME:
        return Verdict.NO_DIFFERENCE, f"the speedup is between {estimate.low:.2f} and {estimate.high:.2f}"
    return Verdict.CANNOT_TELL, f"starts of the same files differ by {estimate.spread:.1%}, too much for this effect"
