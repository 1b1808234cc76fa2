"""From the starts of both sides to a speedup with an interval."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence

from autotune.model.verified import Estimate
from autotune.verify.student import quantile

FEWEST_PAIRS = 2
"""Fewer have no interval."""

LEAST_PAIRS, MOST_PAIRS = 3, 10
"""Of a plan."""

LEAST_SPREAD = 0.01
"""Starts of the same files differ by about this on a quiet machine; a few that agree better do so by luck."""

CROWDED_SPREAD = 0.02
"""The same beside other work, as CPU time is measured: by 1.8 to 6 % (benchmarks/results/verify-busy.jsonl)."""

LEVEL, SURELY = 0.95, 0.99
"""Of the two intervals."""


def confidence_interval(look: int) -> float:
    """The level of the wider interval at the `look`-th time that the starts are judged, from 1 on.

    Each look may be wrong half as often as the one before, so that all of them together are twice as often as one.
    """
    return 1 - (1 - SURELY) * 0.5 ** (look - 1)


def estimate(
    before: Sequence[float],
    after: Sequence[float],
    in_turns: bool = False,
    look: int = 1,
    least_spread: float = LEAST_SPREAD,
) -> Estimate:
    """`before[i]` and `after[i]` are step times (any unit, above 0) of neighbouring starts: pair i.

    The mean of the pairs' log ratios, with the wider of two t intervals: of the pairs (slow drifts cancel) and of both
    sides by themselves (more degrees of freedom: a few pairs that agree by luck do not narrow it). What took turns had
    the same machine whatever that did: there it is the pairs alone. Raises ValueError for fewer than FEWEST_PAIRS.
    """
    size = len(before)
    if size != len(after) or size < FEWEST_PAIRS:
        raise ValueError(f"{size} and {len(after)} starts are no {FEWEST_PAIRS} pairs or more")
    logs = [[math.log(value) for value in side] for side in (before, after)]
    gains = [old - new for old, new in zip(*logs, strict=True)]
    of_pairs = max(least_spread, statistics.stdev(gains) / math.sqrt(2))
    of_sides = max(least_spread, math.sqrt(statistics.fmean(statistics.variance(side) for side in logs)))
    spread = of_pairs if in_turns else of_sides
    by_pair, by_side = (each * math.sqrt(2 / size) for each in (of_pairs, spread))
    mean = statistics.fmean(gains)

    def interval(level: float) -> tuple[float, float]:
        half = max(quantile(level, size - 1) * by_pair, quantile(level, 2 * size - 2) * by_side)
        return math.exp(mean - half), math.exp(mean + half)

    low, high = interval(LEVEL)
    apart = max(before) < min(after) or max(after) < min(before)
    return Estimate(math.exp(mean), low, high, interval(confidence_interval(look)), spread, apart, in_turns=in_turns)
