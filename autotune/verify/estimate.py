"""From the starts of both sides to a speedup with an interval."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence

from autotune.model.verified import Estimate

LEAST_PAIRS, MOST_PAIRS = 4, 10

LEAST_SPREAD = 0.01
"""Starts of the same files differ by about this on a quiet machine; a few that agree better do so by luck."""

_T95 = {
    **{3: 3.182, 4: 2.776, 5: 2.571, 6: 2.447, 7: 2.365, 8: 2.306, 9: 2.262},
    **{10: 2.228, 12: 2.179, 14: 2.145, 16: 2.120, 18: 2.101},
}
_T99 = {
    **{3: 5.841, 4: 4.604, 5: 4.032, 6: 3.707, 7: 3.499, 8: 3.355, 9: 3.250},
    **{10: 3.169, 12: 3.055, 14: 2.977, 16: 2.921, 18: 2.878},
}
"""Quantiles of Student's t (two-sided) by degrees of freedom: n - 1 and 2n - 2 of LEAST_PAIRS to MOST_PAIRS pairs."""


def estimate(before: Sequence[float], after: Sequence[float]) -> Estimate:
    """`before[i]` and `after[i]` are step times (any unit, above 0) of neighbouring starts: pair i.

    The mean of the pairs' log ratios, with the wider of two t intervals: of the pairs (slow drifts cancel) and of both
    sides by themselves (more degrees of freedom: a few pairs that agree by luck do not narrow it). Raises ValueError
    for fewer than LEAST_PAIRS or more than MOST_PAIRS pairs.
    """
    size = len(before)
    if size != len(after) or not LEAST_PAIRS <= size <= MOST_PAIRS:
        raise ValueError(f"{size} and {len(after)} starts are no {LEAST_PAIRS} to {MOST_PAIRS} pairs")
    logs = [[math.log(value) for value in side] for side in (before, after)]
    gains = [old - new for old, new in zip(*logs, strict=True)]
    spread = max(LEAST_SPREAD, math.sqrt(statistics.fmean(statistics.variance(side) for side in logs)))
    by_side = spread * math.sqrt(2 / size)
    by_pair = max(LEAST_SPREAD * math.sqrt(2 / size), statistics.stdev(gains) / math.sqrt(size))
    mean = statistics.fmean(gains)

    def interval(quantiles: dict[int, float]) -> tuple[float, float]:
        half = max(quantiles[size - 1] * by_pair, quantiles[2 * size - 2] * by_side)
        return math.exp(mean - half), math.exp(mean + half)

    low, high = interval(_T95)
    apart = max(before) < min(after) or max(after) < min(before)
    return Estimate(math.exp(mean), low, high, interval(_T99), spread, apart)
