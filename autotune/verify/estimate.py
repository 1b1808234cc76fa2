"""From the starts of both sides to a speedup with an interval."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence

from autotune.model.verified import Estimate

LEAST_PAIRS, MOST_PAIRS = 4, 10

LEAST_SPREAD = 0.01
"""Starts of the same files differ by about this on a quiet machine; a few that agree better do so by luck."""

_DEGREES = (2, 3, 4, 5, 6, 7, 8, 9, 10, 12, 14, 16, 18)
_T95_ROW = (4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228, 2.179, 2.145, 2.120, 2.101)
_T99_ROW = (9.925, 5.841, 4.604, 4.032, 3.707, 3.499, 3.355, 3.250, 3.169, 3.055, 2.977, 2.921, 2.878)
T95, T99 = (dict(zip(_DEGREES, row, strict=True)) for row in (_T95_ROW, _T99_ROW))
"""Quantiles of Student's t (two-sided) by degrees of freedom: n - 1 and 2n - 2 of LEAST_PAIRS to MOST_PAIRS pairs, and
of two."""


def estimate(before: Sequence[float], after: Sequence[float], in_turns: bool = False) -> Estimate:
    """`before[i]` and `after[i]` are step times (any unit, above 0) of neighbouring starts: pair i.

    The mean of the pairs' log ratios, with the wider of two t intervals: of the pairs (slow drifts cancel) and of both
    sides by themselves (more degrees of freedom: a few pairs that agree by luck do not narrow it). What took turns had
    the same machine whatever that did: there it is the pairs alone. Raises ValueError
    for fewer than LEAST_PAIRS or more than MOST_PAIRS pairs.
    """
    size = len(before)
    if size != len(after) or not LEAST_PAIRS <= size <= MOST_PAIRS:
        raise ValueError(f"{size} and {len(after)} starts are no {LEAST_PAIRS} to {MOST_PAIRS} pairs")
    logs = [[math.log(value) for value in side] for side in (before, after)]
    gains = [old - new for old, new in zip(*logs, strict=True)]
    of_pairs = max(LEAST_SPREAD, statistics.stdev(gains) / math.sqrt(2))
    of_sides = max(LEAST_SPREAD, math.sqrt(statistics.fmean(statistics.variance(side) for side in logs)))
    spread = of_pairs if in_turns else of_sides
    by_pair, by_side = (each * math.sqrt(2 / size) for each in (of_pairs, spread))
    mean = statistics.fmean(gains)

    def interval(quantiles: dict[int, float]) -> tuple[float, float]:
        half = max(quantiles[size - 1] * by_pair, quantiles[2 * size - 2] * by_side)
        return math.exp(mean - half), math.exp(mean + half)

    low, high = interval(T95)
    apart = max(before) < min(after) or max(after) < min(before)
    return Estimate(math.exp(mean), low, high, interval(T99), spread, apart, in_turns=in_turns)
