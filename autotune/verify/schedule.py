"""Which starts to make: A B B A ..., as many as the budget holds, each long enough to say something."""

from __future__ import annotations

import math
from collections.abc import Sequence

from autotune.errors import UsageError
from autotune.model.verified import AFTER, BEFORE, Schedule, Start
from autotune.verify import losses
from autotune.verify.estimate import LEAST_PAIRS, MOST_PAIRS

WINDOW_S = 1.0
"""Seconds that each start measures, about: longer windows narrow little, what differs is one start from the next."""

LEAST_STEPS, MOST_STEPS = 10, 1000
REHEARSED_STEPS = 6


def order(pairs: int) -> tuple[str, ...]:
    """A B B A A B B A ...: a machine that slowly gets faster or slower favours no side."""
    there, back = (BEFORE, AFTER), (AFTER, BEFORE)
    return tuple(side for pair in range(pairs) for side in (back if pair % 2 else there))


def schedule(rehearsed: Sequence[Start], budget_s: float, spent_s: float, loss_steps: int | None) -> Schedule:
    """What to make of the rest of `budget_s`, from one rehearsal of each side, which took `spent_s` together.

    Both sides get the longer warm-up of the two, so that they measure the same steps; `loss_steps` are made in all, and
    never fewer than the losses need. Raises UsageError, which names the smallest useful budget, when it does not hold
    LEAST_PAIRS pairs.
    """
    warmup = max(start.warmup for start in rehearsed)
    slowest_s = max(start.step_ms for start in rehearsed) / 1000
    wanted = min(MOST_STEPS, max(LEAST_STEPS, math.ceil(WINDOW_S / slowest_s)))
    steps = max(wanted, (loss_steps or losses.LEAST_STEPS) - warmup)
    pair_s = sum(start.fixed_s + (warmup + steps) * start.step_ms / 1000 for start in rehearsed)
    pairs = min(MOST_PAIRS, int((budget_s - spent_s) / pair_s))
    if pairs < LEAST_PAIRS:
        least = math.ceil(spent_s + LEAST_PAIRS * pair_s) + 1
        raise UsageError(
            f"{budget_s:.0f} s are too few: a start takes about {pair_s / 2:.0f} s, and less than {LEAST_PAIRS} "
            "of each side tell nothing",
            where="--budget",
            to_do=f"The smallest useful budget is {least} s: --budget {least}s",
        )
    return Schedule(order(pairs), steps, warmup, pairs * pair_s)


def paired(starts: Sequence[Start]) -> tuple[tuple[Start, ...], tuple[Start, ...]]:
    """The starts of both sides, in order: the n-th of one side is the neighbour of the n-th of the other."""
    return tuple(one for one in starts if one.side == BEFORE), tuple(one for one in starts if one.side == AFTER)
