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

MOST_ROWS = 240
"""So many are joined in pairs, or every second one is left out: a run has millions of steps."""

MOST_NEWEST = 120
"""Of the last blocks, as they were: a jump among them is found to the block."""


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


class Blocks:
    """The blocks of a run: `rows` from its first step to now, equally far apart, and the `newest` as they were.

    A row is the mean of so many blocks that there are never more than MOST_ROWS, and in a long run never less than half
    of it.
    """

    def __init__(self) -> None:
        self.rows: list[Level] = []
        self.newest: list[Level] = []
        self._of_next: list[Level] = []
        self._size = 1

    def add(self, block: Level) -> None:
        """The next one."""
        self.newest.append(block)
        del self.newest[:-MOST_NEWEST]
        self._of_next.append(block)
        if len(self._of_next) < self._size:
            return
        self.rows.append(_joined(self._of_next))
        self._of_next = []
        if len(self.rows) == MOST_ROWS:
            self.rows = [_joined(pair) for pair in zip(self.rows[::2], self.rows[1::2])]
            self._size *= 2


def _joined(blocks: Sequence[Level]) -> Level:
    """Neighbours as one."""
    error = sqrt(sum(each.error**2 for each in blocks)) / len(blocks)
    return Level(blocks[-1].step, sum(each.mean for each in blocks) / len(blocks), error)


class Samples:
    """Values at steps from the first one to now, about equally far apart, and the `newest`."""

    def __init__(self) -> None:
        self.kept: list[tuple[int, int]] = []
        self.newest: tuple[int, int] | None = None
        self._spacing = 1.0

    def add(self, step: int, value: int) -> None:
        """The next one; it is kept where it is far enough from the last one that was."""
        self.newest = step, value
        if not self.kept or step >= self.kept[-1][0] + self._spacing:
            self.kept.append(self.newest)
        if len(self.kept) > MOST_ROWS:
            self.kept = self.kept[::2]
            # A tenth less: they come at ends of blocks, and some are further apart because a window lay in between.
            self._spacing = 0.9 * (self.kept[-1][0] - self.kept[0][0]) / (len(self.kept) - 1)

    def all(self) -> list[tuple[int, int]]:
        """Those that are kept, and the newest."""
        return [*self.kept, *([self.newest] if self.newest is not None and self.newest != self.kept[-1] else [])]


def is_steady(values: Sequence[tuple[int, float]]) -> bool:
    """Whether (step, value) went one way all along: a line fits better than a jump, and both halves rise."""
    if len(values) < LEAST_VALUES:
        return False
    slope = _slope(values)
    middle, mean = _middle(values)
    of_line = sum((each - mean - slope * (at - middle)) ** 2 for at, each in values)
    half = len(values) // 2
    goes_on = slope and min(_slope(values[:half]) / slope, _slope(values[-half:]) / slope) >= LEAST_HALF
    alone = [each for _, each in values]
    return bool(goes_on) and of_line < _of_jump(alone, jump(alone))


def jump(values: Sequence[float]) -> int:
    """Index of the first value of the second of the two levels that fit best; of at least two values."""
    return min(range(1, len(values)), key=lambda index: _of_jump(values, index))


def _of_jump(values: Sequence[float], index: int) -> float:
    return _squares(values[:index]) + _squares(values[index:])


def _squares(values: Sequence[float]) -> float:
    mean = sum(values) / len(values)
    return sum((each - mean) ** 2 for each in values)


def _slope(values: Sequence[tuple[int, float]]) -> float:
    """Of the line that fits best, per step."""
    middle, mean = _middle(values)
    return sum((at - middle) * (each - mean) for at, each in values) / sum((at - middle) ** 2 for at, _ in values)


def _middle(values: Sequence[tuple[int, float]]) -> tuple[float, float]:
    return sum(at for at, _ in values) / len(values), sum(each for _, each in values) / len(values)
