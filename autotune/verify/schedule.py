"""Which runs to make: A B B A ..., as many as the budget holds, each long enough for a verdict."""

from __future__ import annotations

import math
from collections.abc import Sequence

from msgspec import Struct
from msgspec.structs import replace

from autotune.errors import UsageError
from autotune.model.verified import AFTER, BEFORE, RunResult, Schedule, TimeSlicing
from autotune.verify import epoch_windows
from autotune.verify.thresholds import (
    FEWEST_PAIRS,
    LEAST_LOSSES,
    LEAST_PAIRS,
    LEAST_WINDOW_STEPS,
    LONG_WINDOW_S,
    MEMORY_SHARE,
    MOST_PAIRS,
    MOST_THROTTLED,
    MOST_TURN_S,
    MOST_WINDOW_STEPS,
    SLACK,
    SPARE,
    TOGETHER,
    TURN_S,
    WAITS,
    WINDOW_S,
)

Pair = tuple[str, str]


class FreeResources(Struct, frozen=True):
    """The resources that two simultaneous runs may use."""

    memory_bytes: float
    cpus: float


def pair(number: int) -> Pair:
    """A B B A A B B A ...: a machine that slowly gets faster or slower favours no side."""
    return (AFTER, BEFORE) if number % 2 else (BEFORE, AFTER)


def order(pairs: int) -> tuple[str, ...]:
    """The sides of so many pairs."""
    return tuple(side for number in range(pairs) for side in pair(number))


def schedule(
    rehearsed: Sequence[RunResult],
    budget_s: float,
    spent_s: float,
    loss_steps: int | None,
    free: FreeResources | None = None,
) -> Schedule:
    """Plans the rest of `budget_s` from one rehearsal of each side; the rehearsals took `spent_s` together.

    Both sides get the longer warm-up of the two, so that they measure the same steps. A run makes `loss_steps` steps,
    and never fewer than the loss comparison needs; a window holds whole epochs where these are short. Sides that may be
    paused are time-sliced if both fit into what is `free`. Raises UsageError with the smallest useful budget when this
    one does not hold FEWEST_PAIRS; from that many pairs on they are stored, and more can be added.
    """
    warmup, left_s = max(start.warmup for start in rehearsed), budget_s - spent_s
    steps, each = _least(rehearsed, (loss_steps or LEAST_LOSSES) - warmup)
    turns = _turns(rehearsed, free)
    fixed_s = _fixed_s(rehearsed, warmup, turns)
    step_s = sum(start.step_ms / 1000 for start in rehearsed)
    pair_s = fixed_s + steps * step_s
    pairs = min(MOST_PAIRS, int(left_s / pair_s))
    if pairs < FEWEST_PAIRS:
        raise UsageError(
            f"{budget_s:.0f} s are too few: a run takes about {pair_s / 2:.0f} s, and fewer than "
            f"{FEWEST_PAIRS} runs per side show nothing",
            where="--budget",
            to_do=f"This suffices: --budget {sufficient_s(spent_s, pair_s)}s",
        )
    if turns is not None:
        most = int((left_s / SLACK / pairs - fixed_s) / step_s)
        steps = max(steps, min(_steps(rehearsed, LONG_WINDOW_S), most) // each * each)
    return Schedule(order(pairs), steps, warmup, pairs * (fixed_s + steps * step_s), turns)


def more(planned: Schedule, made: int, budget_s: float, spent_s: float) -> Schedule:
    """More pairs like the `made` ones of `planned`. Raises UsageError where the budget holds none, or too few for
    FEWEST_PAIRS in all."""
    needed = max(1, FEWEST_PAIRS - made)
    pairs = min(MOST_PAIRS, int((budget_s - spent_s) / planned.pair_s))
    if pairs < needed:
        raise UsageError(
            f"{budget_s:.0f} s are too few: {made} pairs exist, and another one takes about {planned.pair_s:.0f} s",
            where="--budget",
            to_do=f"This suffices: --budget {math.ceil(spent_s + SPARE * needed * planned.pair_s)}s",
        )
    sides = tuple(side for number in range(made, made + pairs) for side in pair(number))
    return replace(planned, order=sides, seconds=pairs * planned.pair_s)


def sufficient_s(rehearsals_s: float, pair_s: float) -> int:
    """A budget that is not refused, even if runs take SPARE times as long as these did."""
    return math.ceil(SPARE * (rehearsals_s + FEWEST_PAIRS * pair_s))


def least_s(rehearsed: Sequence[RunResult], loss_steps: int | None) -> float:
    """Seconds of the smallest useful schedule, one run after the other."""
    warmup = max(start.warmup for start in rehearsed)
    steps, _ = _least(rehearsed, (loss_steps or LEAST_LOSSES) - warmup)
    return LEAST_PAIRS * (_fixed_s(rehearsed, warmup, None) + steps * sum(start.step_ms / 1000 for start in rehearsed))


def _turns(rehearsed: Sequence[RunResult], free: FreeResources | None) -> TimeSlicing | None:
    """None where a process may not be paused, memory does not hold both, a quota throttles one, or waits are too long
    (they go on while a process is paused)."""
    needed = [start.memory_bytes for start in rehearsed if start.may_be_stopped and start.memory_bytes is not None]
    waits = [start.wait_s for start in rehearsed if start.wait_s is not None]
    if len(needed) < len(rehearsed) or len(waits) < len(rehearsed) or free is None:
        return None
    turn_s = max(TURN_S, WAITS * max(waits))
    # Where no counter of a quota is found there is no quota.
    throttled = max(start.throttled_share or 0.0 for start in rehearsed)
    if turn_s > MOST_TURN_S or throttled > MOST_THROTTLED or sum(needed) > MEMORY_SHARE * free.memory_bytes:
        return None
    together_s = TOGETHER * min(start.fixed_s for start in rehearsed) if free.cpus >= len(rehearsed) else 0.0
    return TimeSlicing(together_s, turn_s)


def _fixed_s(rehearsed: Sequence[RunResult], warmup: int, turns: TimeSlicing | None) -> float:
    """Seconds of a pair that measure nothing."""
    each = [start.fixed_s + warmup * start.step_ms / 1000 for start in rehearsed]
    return sum(each) - (turns.together_s if turns else 0.0)


def _steps(rehearsed: Sequence[RunResult], window_s: float) -> int:
    slowest_s = max(start.step_ms for start in rehearsed) / 1000
    return min(MOST_WINDOW_STEPS, max(LEAST_WINDOW_STEPS, math.ceil(window_s / slowest_s)))


def _least(rehearsed: Sequence[RunResult], loss_steps: int) -> tuple[int, int]:
    """The least steps of a window, and what it holds a multiple of: an epoch where these are short."""
    steps = max(_steps(rehearsed, WINDOW_S), loss_steps)
    each = max(epoch_windows.multiple(start.step_ms / 1000, start.epoch_steps) for start in rehearsed)
    return math.ceil(steps / each) * each, each


def paired(starts: Sequence[RunResult]) -> tuple[tuple[RunResult, ...], tuple[RunResult, ...]]:
    """The runs of both sides, in order: the n-th of one side is the neighbour of the n-th of the other."""
    return tuple(one for one in starts if one.side == BEFORE), tuple(one for one in starts if one.side == AFTER)
