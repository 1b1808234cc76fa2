"""Making the starts of a schedule, and more of them while they do not tell and the time holds them."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence

from autotune.errors import UsageError
from autotune.model.verified import RunResult
from autotune.verify.estimate import FEWEST_PAIRS, LEAST_PAIRS
from autotune.verify.schedule import Pair, pair

FURTHER_PAIRS = 5
"""That are made before the starts are judged again."""

MOST_LOOKS = 5


def make(
    run: Callable[[Pair], Sequence[RunResult]],
    planned: int,
    pair_s: float,
    deadline: float,
    is_told: Callable[[Sequence[RunResult], int], bool],
    *,
    made: Sequence[RunResult] = (),
    look: int = 1,
    clock: Callable[[], float] = time.monotonic,
) -> tuple[list[RunResult], int]:
    """The starts, those of before (`made`) first, and how often they were judged.

    `run` makes a pair, the first of which takes about `pair_s`; `deadline` is a time of `clock`. `planned` more pairs
    are made, LEAST_PAIRS in all where the time holds them, and then FURTHER_PAIRS at a time while `is_told`, which gets
    the starts and the look, says that they do not tell. A pair that the time does not hold any more is left out; the
    first LEAST_PAIRS may exceed it by one start.
    """
    starts = list(made)
    goal = max(LEAST_PAIRS, len(made) // 2 + planned)
    while True:
        while len(starts) // 2 < goal:
            number = len(starts) // 2
            needed_s = pair_s if number >= LEAST_PAIRS else pair_s / 2
            if clock() + needed_s > deadline:
                return starts, look
            began = clock()
            starts += run(pair(number))
            pair_s = clock() - began
        if look >= MOST_LOOKS or len(starts) // 2 < FEWEST_PAIRS or is_told(starts, look):
            return starts, look
        if clock() + pair_s > deadline:
            return starts, look
        goal, look = goal + FURTHER_PAIRS, look + 1


def refuse_few(starts: Sequence[RunResult], seconds: float, pair_s: float) -> None:
    """Raises UsageError for fewer pairs than an interval needs."""
    pairs = len(starts) // 2
    if pairs < FEWEST_PAIRS:
        least = math.ceil(max((LEAST_PAIRS - pairs) * pair_s, seconds)) + 1
        raise UsageError(
            f"the budget allowed only {pairs} of {LEAST_PAIRS} pairs: runs took longer than the rehearsals",
            where="--budget",
            to_do=f"They are stored: --resume --budget {least}s continues from there.",
        )
