"""From an estimate, and from what else the machine did meanwhile, to the verdict."""

from __future__ import annotations

from collections.abc import Sequence

from autotune.model.verified import Clock, Estimate, RunResult, Verdict
from autotune.verify.clocks import doubt
from autotune.verify.disturbances import is_uneven
from autotune.verify.thresholds import SAME_MARGIN, WIN_MARGIN


def verdict(estimate: Estimate, starts: Sequence[RunResult], clock: Clock = Clock.WALL) -> tuple[Verdict, str]:
    """The verdict and, where it is not obvious, why."""
    if is_uneven(starts):
        return Verdict.CANNOT_TELL, "one side read files from disk that the other found in the page cache"
    said = by_interval(estimate)
    if said is Verdict.CANNOT_TELL:
        return said, _why_not(estimate)
    why = doubt(said, starts) if clock is Clock.WALL else ""
    return (Verdict.CANNOT_TELL, why) if why else (said, "")


def by_interval(estimate: Estimate) -> Verdict:
    """The verdict of the interval alone; CANNOT_TELL where it is too wide: more pairs may narrow it."""
    if estimate.low > WIN_MARGIN:
        return Verdict.FASTER
    if estimate.high < 1 / WIN_MARGIN:
        return Verdict.SLOWER
    if estimate.low > 1 / SAME_MARGIN and estimate.high < SAME_MARGIN:
        return Verdict.NO_DIFFERENCE
    return Verdict.CANNOT_TELL


def _why_not(estimate: Estimate) -> str:
    if estimate.low <= 1 <= estimate.high:
        return f"runs of the same files differ by {estimate.spread:.1%}, too much for this effect"
    return f"the difference is not clearly above {WIN_MARGIN - 1:.0%}, by which runs of the same files may differ"
