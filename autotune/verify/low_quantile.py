"""The speedup without what came and went on the machine: every step at nearly its fastest in many starts of a side.

Other work, also that of a host's other guests, which no counter shows, only ever adds time. Where the starts of a side
do the same work step by step, a step that took longer in one of them was held up. What belongs to the script (an
evaluation, a save, a stall at every fourth batch) comes at the same step in every start, and stays.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence

from autotune.model.verified import Estimate
from autotune.verify.estimate import LEAST_SPREAD, LEVEL, confidence_interval
from autotune.verify.student import quantile

Rows = Sequence[Sequence[float]]

QUANTILE = 0.1
"""Of a step's times in the starts of a side, interpolated: of ten starts nearly the second fastest."""

LEAST_STEPS, LEAST_STARTS = 10, 4


def estimate(
    before: Rows, after: Rows, of_all: Estimate, look: int = 1, least_spread: float = LEAST_SPREAD
) -> tuple[Estimate, tuple[float, float]] | None:
    """`before[i][k]` is the time of step k in start i; start i of one side neighbours start i of the other.

    The interval is the jackknife's over pairs of starts, wider where starts differ as a whole: then the fastest steps
    are those of the fastest start, and a few of those say little of the next. Returns it with the times of a step on
    both sides, or None where there are too few steps or starts, where it is wider than that of all times (`of_all`),
    and where it contradicts those: then times vary by themselves, and the fastest of them say nothing.
    """
    steps = min(map(len, (*before, *after)))
    if steps < LEAST_STEPS or len(before) < LEAST_STARTS:
        return None
    sides = _step_time(before, steps), _step_time(after, steps)
    size, gain = len(before), math.log(sides[0] / sides[1])
    without = [_gain(_without(before, pair), _without(after, pair), steps) for pair in range(size)]
    jackknife = math.sqrt((size - 1) * statistics.pvariance(without))
    as_a_whole = math.hypot(_level_spread(before, steps), _level_spread(after, steps)) / math.sqrt(size)
    half = max(least_spread * math.sqrt(2 / size), math.hypot(jackknife, as_a_whole))

    def interval(level: float) -> tuple[float, float]:
        width = quantile(level, size - 1) * half
        return math.exp(gain - width), math.exp(gain + width)

    low, high = interval(LEVEL)
    is_narrower = high / low < of_all.high / of_all.low
    if not is_narrower or not of_all.surely[0] <= math.exp(gain) <= of_all.surely[1]:
        return None
    is_apart = min(without) > 0 or max(without) < 0
    found = Estimate(
        math.exp(gain), low, high, interval(confidence_interval(look)), of_all.spread, is_apart, True, of_all.in_turns
    )
    return found, sides


def _gain(before: Rows, after: Rows, steps: int) -> float:
    return math.log(_step_time(before, steps) / _step_time(after, steps))


def _level_spread(rows: Rows, steps: int) -> float:
    """How far the median start lies above the fastest ones, as a logarithm; a start's level is that of its steps that
    were held up least. Near 0 where most starts agree, about a standard deviation where each has a pace of its own."""
    lows = [_low(sorted(row[step] for row in rows)) for step in range(steps)]
    levels = sorted(_low(sorted(math.log(ms / low) for ms, low in zip(row, lows, strict=False))) for row in rows)
    return statistics.median(levels) - _low(levels)


def _without(rows: Rows, index: int) -> Rows:
    return [*rows[:index], *rows[index + 1 :]]


def _step_time(rows: Rows, steps: int) -> float:
    """The mean over steps of each step's low quantile over the starts."""
    return statistics.fmean(_low(sorted(row[step] for row in rows)) for step in range(steps))


def _low(ordered: Sequence[float]) -> float:
    place = QUANTILE * (len(ordered) - 1)
    index = int(place)
    return ordered[index] + (place - index) * (ordered[index + 1] - ordered[index])
