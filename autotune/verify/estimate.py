"""From the pairs of a verification to a speedup with one interval."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence

from autotune.model.verified import Estimate
from autotune.verify.student import quantile
from autotune.verify.thresholds import FEWEST_PAIRS, LEAST_SPREAD, LEVEL


def level(look: int) -> float:
    """The confidence of the interval at the `look`-th time that the pairs are judged, from 1 on.

    Each look may be wrong half as often as the one before, the first 2.5 times in 100: all of them together are right
    with the confidence LEVEL.
    """
    return 1 - (1 - LEVEL) * 0.5**look


def estimate(before: Sequence[float], after: Sequence[float], look: int = 1) -> Estimate:
    """`before[i]` and `after[i]` are step times (any unit, above 0) of the runs of pair i.

    The mean of the pairs' log ratios with Student's t interval: what is slow for both runs of a pair cancels out.
    Raises ValueError for fewer than FEWEST_PAIRS.
    """
    size = len(before)
    if size != len(after) or size < FEWEST_PAIRS:
        raise ValueError(f"{size} and {len(after)} runs are not {FEWEST_PAIRS} pairs or more")
    gains = [math.log(old / new) for old, new in zip(before, after, strict=True)]
    mean = statistics.fmean(gains)
    spread = max(LEAST_SPREAD, statistics.stdev(gains) / math.sqrt(2))
    half = quantile(level(look), size - 1) * spread * math.sqrt(2 / size)
    return Estimate(math.exp(mean), math.exp(mean - half), math.exp(mean + half), spread)
