"""The function outside of the models that costs most, where its time is spread over more lines than one."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence

from autotune.derive.lines import Cost, Frame, LineCosts, Place, is_inner
from autotune.model.report import HotFunction, HotLine

MOST_IN_MODELS = 0.2
"""Of a function's time: one that calls models is a step of the training and no function beside it."""

AS_MUCH = 0.8
"""Of the time of the function that costs most: one inside of it with so much says more."""

STEPPING = ("optimizer", "data_wait")
"""Phases that run in the functions that make up the training loop."""

Function = tuple[str, str, int]
"""File, name, and first line."""


def hot_function(found: LineCosts, hottest: HotLine | None) -> HotFunction | None:
    """The place where it is called; None where no function outside of the models costs more than the hottest line."""
    spent = _inclusive(found)
    most = max((sum(cost.ms for cost in costs) for costs in spent.values()), default=0.0)
    if hottest is None or found.share(most) <= hottest.share:
        return None
    function = max(
        (each for each, costs in spent.items() if sum(cost.ms for cost in costs) >= AS_MUCH * most),
        key=lambda each: (_depth(each, spent[each]), each),
    )
    file, line = _call(function, spent[function], found)
    share = found.share(sum(cost.ms for cost in spent[function]))
    return HotFunction(file, line, function[1], share) if share > hottest.share else None


def _inclusive(found: LineCosts) -> dict[Function, list[Cost]]:
    """The costs of each function, with what it calls and the backward pass of its operations; of those beside the
    models and the training loop."""
    spent: dict[Function, list[Cost]] = defaultdict(list)
    own_ms: dict[Place, float] = defaultdict(float)
    ms_in: dict[tuple[Function, Place], float] = defaultdict(float)
    for cost in found.costs:
        if not cost.seen.count or not cost.seen.frames:
            continue
        place = found.statement.place(cost.seen.frames[-1])
        own_ms[place] += cost.ms
        for function in _functions(cost.seen.frames):
            spent[function].append(cost)
            ms_in[function, place] += cost.ms
    beside = {function: costs for function, costs in spent.items() if _is_beside(costs)}
    for cost in found.costs:
        if cost.seen.count or not cost.seen.frames:
            continue
        place = found.statement.place(cost.seen.frames[-1])
        for function, costs in beside.items():
            part = ms_in[function, place] / own_ms[place] if own_ms[place] else 0.0
            if part:
                costs.append(Cost(cost.seen, cost.ms * part, cost.phase))
    return beside


def _functions(frames: Sequence[Frame]) -> Iterator[Function]:
    """Each function of a stack once, without a script's top level."""
    return iter(
        {(file, name, first) for file, _, name, first in frames if first and not is_inner(name) and name != "<module>"}
    )


def _is_beside(costs: Sequence[Cost]) -> bool:
    in_models = sum(cost.ms for cost in costs if cost.seen.module)
    is_loop = any(cost.phase in STEPPING for cost in costs)
    return not is_loop and in_models <= MOST_IN_MODELS * sum(cost.ms for cost in costs)


def _depth(function: Function, costs: Sequence[Cost]) -> int:
    """How many of the user's functions it runs in, at most."""
    return max(_index(function, cost.seen.frames) for cost in costs)


def _index(function: Function, frames: Sequence[Frame]) -> int:
    return next((n for n, (file, _, name, first) in enumerate(frames) if (file, name, first) == function), 0)


def _call(function: Function, costs: Sequence[Cost], found: LineCosts) -> Place:
    """The line that calls it most; its own first line where nobody of the user's does."""
    calls: dict[Place, float] = defaultdict(float)
    for cost in costs:
        index = _index(function, cost.seen.frames)
        if index:
            calls[found.statement.place(cost.seen.frames[index - 1])] += cost.ms
    return max(calls, key=lambda place: calls[place], default=(function[0], function[2]))
