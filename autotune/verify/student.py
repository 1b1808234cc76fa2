"""Quantiles of Student's t distribution."""

from __future__ import annotations

import math
from functools import lru_cache

_EPSILON = 1e-12
_TINY = 1e-300
_MOST_TERMS = 500


@lru_cache(maxsize=1024)
def quantile(level: float, degrees: int) -> float:
    """How many standard errors lie on either side of the mean in an interval of this level (0.95: 95 %)."""
    low, high = 0.0, 1.0
    while _within(high, degrees) < level:
        low, high = high, 2 * high
    while high - low > _EPSILON * high:
        middle = (low + high) / 2
        low, high = (middle, high) if _within(middle, degrees) < level else (low, middle)
    return high


def _within(value: float, degrees: int) -> float:
    """The probability of a smaller absolute value."""
    return 1.0 - _incomplete_beta(degrees / 2, 0.5, degrees / (degrees + value * value))


def _incomplete_beta(a: float, b: float, x: float) -> float:
    """The regularised incomplete beta function (Numerical Recipes, 6.4)."""
    if x <= 0.0 or x >= 1.0:
        return min(1.0, max(0.0, x))
    if x > (a + 1) / (a + b + 2):
        return 1.0 - _incomplete_beta(b, a, 1.0 - x)
    logarithm = math.lgamma(a + b) - math.lgamma(a) - math.lgamma(b) + a * math.log(x) + b * math.log1p(-x)
    return math.exp(logarithm) * _continued_fraction(a, b, x) / a


def _continued_fraction(a: float, b: float, x: float) -> float:
    """By the method of Lentz."""
    c, d = 1.0, 1.0 / _apart_from_zero(1.0 - (a + b) * x / (a + 1))
    value = d
    for term in range(1, _MOST_TERMS):
        even = term * (b - term) * x / ((a + 2 * term - 1) * (a + 2 * term))
        odd = -(a + term) * (a + b + term) * x / ((a + 2 * term) * (a + 2 * term + 1))
        for numerator in (even, odd):
            d = 1.0 / _apart_from_zero(1.0 + numerator * d)
            c = _apart_from_zero(1.0 + numerator / c)
            value *= d * c
        if abs(d * c - 1.0) < _EPSILON:
            break
    return value


def _apart_from_zero(value: float) -> float:
    return value if abs(value) > _TINY else _TINY
