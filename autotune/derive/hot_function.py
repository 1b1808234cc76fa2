"""The function beside the models that costs most, where its time is spread over several lines."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence

from autotune.derive.lines import BACKWARD, Cost, Frame, LineCosts, Place, is_inner
from autotune.model.report import HotFunction, HotLine

MOST_IN_MODELS = 0.2
"""Of a function's time: a function with more of it in models is a step of the training."""

AS_MUCH = 0.8
"""Of the time of the function that costs most: a function inside of it with so much tells more."""

Function = tuple[str, str, int]
"""File, name, and first line."""


def hot_function(found: LineCosts, hottest: HotLine | None) -> HotFunction | None:
    """That function, with the line that leads to it; None where the hottest line costs as much as any of them."""
    spent = {function: costs for function, costs in _inclusive(found).items() if _is_beside(costs)}
    ms = {function: sum(cost.ms for cost in costs) for function, costs in spent.items()}
    larger = [function for function in spent if hottest is not None and found.share(ms[function]) > hottest.share]
    if not larger:
        return None
    most = max(ms[function] for function in larger)
    function = max(
        (each for each in larger if ms[each] >= AS_MUCH * most), key=lambda each: (_depth(each, spent[each]), each)
    )
    return HotFunction(*_led_from(function, spent[function], found), function[1], found.share(ms[function]))


def _inclusive(found: LineCosts) -> Mapping[Function, list[Cost]]:
    """The costs of each function, with what it calls and its part of the backward pass of the lines."""
    spent: dict[Function, list[Cost]] = defaultdict(list)
    own_ms: dict[Place, float] = defaultdict(float)
    ms_in: dict[Place, dict[Function, float]] = defaultdict(lambda: defaultdict(float))
    for cost in found.costs:
        if not cost.seen.count or not cost.seen.frames:
            continue
        place = found.statement.place(cost.seen.frames[-1])
        own_ms[place] += cost.ms
        for function in _functions(cost.seen.frames):
            spent[function].append(cost)
            ms_in[place][function] += cost.ms
    for cost in found.costs:
        if cost.seen.count or not cost.seen.frames:
            continue
        place = found.statement.place(cost.seen.frames[-1])
        for function, ms in ms_in[place].items() if own_ms[place] else ():
            spent[function].append(Cost(cost.seen, cost.ms * ms / own_ms[place], cost.phase))
    return spent


def _functions(frames: Sequence[Frame]) -> Iterator[Function]:
    """Each function of a stack once, without a script's top level."""
    return iter(
        {(file, name, first) for file, _, name, first in frames if first and not is_inner(name) and name != "<module>"}
    )


def _is_beside(costs: Sequence[Cost]) -> bool:
    """Whether a function lies outside of the models and of the training loop.

    Part of the loop are functions that call backward or run in it, and those that fetch batches or update weights
    beside other work.
    """
    in_models = sum(cost.ms for cost in costs if cost.seen.module)
    phases = {cost.phase for cost in costs if cost.seen.count}
    is_loop = BACKWARD in phases or (len(phases) > 1 and bool(phases & {"optimizer", "data_wait"}))
    return not is_loop and in_models <= MOST_IN_MODELS * sum(cost.ms for cost in costs)


def _depth(function: Function, costs: Sequence[Cost]) -> int:
    """How many of the user's functions it runs in, at most."""
    return max(_index(function, cost.seen.frames) for cost in costs)


def _index(function: Function, frames: Sequence[Frame]) -> int:
    return next((n for n, (file, _, name, first) in enumerate(frames) if (file, name, first) == function), 0)


def _led_from(function: Function, costs: Sequence[Cost], found: LineCosts) -> Place:
    """The user's line that leads to it most; its own first line where none is known."""
    lines: dict[Place, float] = defaultdict(float)
    for cost in costs:
        index = _index(function, cost.seen.frames)
        if index:
            lines[found.statement.place(cost.seen.frames[index - 1])] += cost.ms
    return max(lines, key=lambda place: lines[place], default=(function[0], function[2]))
