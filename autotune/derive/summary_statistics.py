"""Small statistics. Bootstraps have a fixed seed, so that a Recording always gives one answer."""

from __future__ import annotations

import itertools
import random
from collections import Counter
from collections.abc import Hashable, Iterable, Sequence
from statistics import fmean, median
from typing import TypeVar

T = TypeVar("T", bound=Hashable)

RESAMPLES = 400
SEED = 20240
MIN_VALUES = 3


def quantile(values: Sequence[float], q: float) -> float:
    """The q-quantile (0..1) of at least one value, linear between order statistics."""
    ordered = sorted(values)
    place = q * (len(ordered) - 1)
    below = int(place)
    above = min(below + 1, len(ordered) - 1)
    return ordered[below] + (ordered[above] - ordered[below]) * (place - below)


def most_common(values: Iterable[T]) -> tuple[T, float] | None:
    """The most frequent value and its share (0..1), the first seen on a tie; None without values."""
    counts = Counter(values)
    if not counts:
        return None
    value, count = counts.most_common(1)[0]
    return value, count / counts.total()


def mean_interval(values: Sequence[float]) -> tuple[float, float] | None:
    """90 % interval of the mean by a moving-block bootstrap; None under three values.

    Blocks of n^(1/3) steps keep what neighbouring steps share (a slow disk, a foreign job): resampling single
    steps would call a drifting run precise.
    """
    n = len(values)
    if n < MIN_VALUES:
        return None
    size = max(1, round(n ** (1 / 3)))
    sums = _block_sums(values, size)
    draw = random.Random(SEED)
    blocks = max(1, n // size)
    means = [sum(draw.choices(sums, k=blocks)) / (blocks * size) for _ in range(RESAMPLES)]
    return quantile(means, 0.05), quantile(means, 0.95)


def _block_sums(values: Sequence[float], size: int) -> list[float]:
    """Sums of `size` consecutive values, wrapping round, so that every value is in equally many blocks."""
    n = len(values)
    return [sum(values[(first + i) % n] for i in range(size)) for first in range(n)]


def median_interval(values: Sequence[float]) -> tuple[float, float] | None:
    """90 % interval of the median by a plain bootstrap; None under three values."""
    if len(values) < MIN_VALUES:
        return None
    draw = random.Random(SEED)
    medians = [median(draw.choices(values, k=len(values))) for _ in range(RESAMPLES)]
    return quantile(medians, 0.05), quantile(medians, 0.95)


def theil_sen(values: Sequence[float]) -> float:
    """The median of the slopes of all pairs of values, per place; 0.0 under two values."""
    n = len(values)
    slopes = [(values[j] - values[i]) / (j - i) for i in range(n) for j in range(i + 1, n)]
    return median(slopes) if slopes else 0.0


def kendall_tau(values: Sequence[float]) -> float:
    """Pairs of which the later one is larger minus those of which it is smaller, of all: 1 rises throughout.

    The statistic of Mann and Kendall's test, which asks nothing of the distribution; 0.0 under two values.
    """
    n = len(values)
    signs = sum((b > a) - (b < a) for a, b in itertools.combinations(values, 2))
    return signs / (n * (n - 1) / 2) if n > 1 else 0.0


def mean(values: Iterable[float]) -> float | None:
    """The mean, or None without values."""
    known = list(values)
    return fmean(known) if known else None
