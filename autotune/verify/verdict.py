"""From an estimate, and from what else the machine did meanwhile, to the verdict."""

from __future__ import annotations

from collections.abc import Sequence

from autotune.model.verified import Clock, Estimate, RunResult, Verdict
from autotune.verify.clocks import doubt
from autotune.verify.page_cache import is_uneven

MARGIN = 1.02
"""A winner is faster by more than this for sure: less is not worth a change, and processes differ by it."""

SAME = 1.05
"""No difference: the speedup lies between 1 / SAME and SAME."""


def verdict(estimate: Estimate, starts: Sequence[RunResult], clock: Clock = Clock.WALL) -> tuple[Verdict, str]:
    """The verdict and, where it is not obvious, why."""
    if is_uneven(starts):
        return Verdict.CANNOT_TELL, "one side read files from disk that the other found in the page cache"
    said = by_interval(estimate)
    if said is Verdict.CANNOT_TELL and not estimate.low <= 1 <= estimate.high:
        return said, _why_not(estimate)
    why = doubt(said, starts) if clock is Clock.WALL and said is not Verdict.CANNOT_TELL else ""
    if why:
        return Verdict.CANNOT_TELL, why
    return said, _WHY.get(said, "").format(low=estimate.low, high=estimate.high, spread=estimate.spread)


_WHY = {
    Verdict.NO_DIFFERENCE: "the speedup is between {low:.2f} and {high:.2f}",
    Verdict.CANNOT_TELL: "runs of the same files differ by {spread:.1%}, too much for this effect",
}


def _why_not(estimate: Estimate) -> str:
    """Why an interval of 95 % that leaves 1 out is not enough."""
    least, most = estimate.surely
    if least <= 1 <= most:
        return f"a winner needs more than 95 % confidence, and that interval is {least:.2f} to {most:.2f}"
    if not (estimate.is_apart or estimate.in_turns) or (estimate.is_undisturbed and not estimate.is_apart):
        return "the runs of both sides overlap, or a single pair decides: a winner needs more pairs that agree"
    return f"the speedup is not clearly above {MARGIN - 1:.0%}, the difference that runs of the same files may show"


def by_interval(estimate: Estimate) -> Verdict:
    """What the interval says; CANNOT_TELL where it is too wide: more pairs may narrow it."""
    least, most = _surely(estimate)
    if least > MARGIN:
        return Verdict.FASTER
    if most < 1 / MARGIN:
        return Verdict.SLOWER
    if estimate.low > 1 / SAME and estimate.high < SAME:
        return Verdict.NO_DIFFERENCE
    return Verdict.CANNOT_TELL


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
