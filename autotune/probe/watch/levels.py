"""How long steps take, block by block, and whether that has moved. Arithmetic only; times in nanoseconds.

A block is some consecutive steps. Its level is their mean without the slowest tenth: one slow step (a save, an
evaluation) does not move it, a wait at every fourth batch does, which no median would see.
"""

from __future__ import annotations

from math import sqrt
from typing import NamedTuple

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

MOVED = 0.1
"""A tenth: by so much the level of a step has to differ."""

CERTAIN = 3.0
"""Standard errors by which it has to differ as well: lengths of batches vary by more than a tenth."""

LEAST_VALUES = 6
"""Fewer do not tell a steady rise from a jump."""

LEAST_HALF = 1 / 3
"""Of the slope of all values, in each half, as in derive/growth.py: what fills up and stays has none at its end."""

MOST_BLOCKS = 240
"""More of them are joined in pairs: a run has millions of steps."""


class Level(NamedTuple):
    """A block: its last step, the mean of a step without the slowest tenth, and the standard error of that."""

    step: int
    mean: float
    error: float


def level(step: int, durations: Sequence[float]) -> Level:
    """The level of the steps that ended with number `step`; at least one duration."""
    ordered = sorted(durations)
    kept = ordered[: len(ordered) - len(ordered) // 10]
    mean = sum(kept) / len(kept)
    spread = sum((each - mean) ** 2 for each in kept) / max(1, len(kept) - 1)
    return Level(step, mean, sqrt(spread / len(kept)))


def differs(first: Level, now: Level) -> bool:
    """Whether a step takes a tenth longer, or shorter, and that by more than chance."""
    by = abs(now.mean - first.mean)
    return by >= MOVED * first.mean and by > CERTAIN * sqrt(first.error**2 + now.error**2)


def has_moved(first: Level, blocks: Sequence[Level]) -> bool:
    """Whether the last two blocks both differ from `first`, to the same side: one alone may be a save."""
    last = blocks[-2:]
    is_longer = [each.mean > first.mean for each in last]
    return len(last) == 2 and all(differs(first, each) for each in last) and is_longer[0] == is_longer[1]


def joined(blocks: list[Level]) -> list[Level]:
    """Each two neighbours as one; the last one stays alone where they are odd in number."""
    pairs = [
        Level(late.step, (early.mean + late.mean) / 2, sqrt(early.error**2 + late.error**2) / 2)
        for early, late in zip(blocks[::2], blocks[1::2])
    ]
    return pairs + blocks[len(blocks) // 2 * 2 :]


def is_steady(values: Sequence[float]) -> bool:
    """Whether values went one way all along: a line fits better than a jump, and both halves rise."""
    if len(values) < LEAST_VALUES:
        return False
    slope = _slope(values)
    mean, middle = sum(values) / len(values), (len(values) - 1) / 2
    of_line = sum((each - mean - slope * (at - middle)) ** 2 for at, each in enumerate(values))
    half = len(values) // 2
    goes_on = slope and min(_slope(values[:half]) / slope, _slope(values[-half:]) / slope) >= LEAST_HALF
    return bool(goes_on) and of_line < _of_jump(values, jump(values))


def jump(values: Sequence[float]) -> int:
    """Index of the first value of the second of the two levels that fit best; of at least two values."""
    return min(range(1, len(values)), key=lambda index: _of_jump(values, index))


def _of_jump(values: Sequence[float], index: int) -> float:
    return _squares(values[:index]) + _squares(values[index:])


def _squares(values: Sequence[float]) -> float:
    mean = sum(values) / len(values)
    return sum((each - mean) ** 2 for each in values)


def _slope(values: Sequence[float]) -> float:
    """Of the line that fits best, per value."""
    middle, mean = (len(values) - 1) / 2, sum(values) / len(values)
    return sum((at - middle) * (each - mean) for at, each in enumerate(values)) / sum(
        (at - middle) ** 2 for at in range(len(values))
    )
