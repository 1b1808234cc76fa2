"""The candidate to confirm: the fastest that `apply` can write completely, without the changes that bring nothing."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from functools import cache

from msgspec import Struct

from autotune.model.tuned import SCHEDULING, Axis, Candidate, SearchTrial, Space
from autotune.tune.ablation import Ablation, Try, ablate, changes, untried
from autotune.tune.search import fastest
from autotune.tune.surrogate import Forecaster, completed

Manual = Callable[[Candidate], frozenset[str]]
"""The changes of a candidate that no edit makes."""


class Winner(Struct, frozen=True):
    """Both are the baseline, or completed in a trial."""

    writable: Ablation
    """To be confirmed. It has manual changes only where no candidate without them was faster than the baseline."""

    fastest: Ablation
    """The same, or faster still by manual changes."""


def choose(
    space: Space,
    forecast: Forecaster,
    trials: Sequence[SearchTrial],
    attempt: Try,
    manual: Manual,
    fixed: Collection[str] = (),
    also: Sequence[Candidate] = (),
) -> Winner:
    """The winner after these trials. Axes that are `fixed` stay at the baseline.

    `attempt` makes the trials that are still needed: the winner without some of its changes, and `also`.
    """
    seen, manual_of = list(trials), cache(manual)

    def tried(one: Candidate) -> SearchTrial | None:
        trial = attempt(one)
        seen.extend([] if trial is None else [trial])
        return trial

    def ablated(also: Sequence[Candidate], is_allowed: Callable[[Candidate], bool]) -> Ablation:
        for one in untried(space, seen, also):
            tried(one)
        best = fastest(space, forecast, seen, [one for one in completed(space, seen) if is_allowed(one)])
        return ablate(space, forecast, best, tuple(seen), tried)

    first = ablated(also, lambda one: _is_fixed(space, one, fixed))
    automatic = without_manual(space, first.candidate, manual_of)
    if automatic == first.candidate:
        return Winner(first, first)
    second = ablated([automatic], lambda one: _is_fixed(space, one, fixed) and not manual_of(one))
    return Winner(first if second.candidate == space.current else second, first)


def without_manual(space: Space, candidate: Candidate, manual: Manual) -> Candidate:
    """Drop the changes that cannot be written automatically, until none is left."""
    while names := manual(candidate):
        candidate = tuple(_without(axis, at, names) for axis, at in zip(space.axes, candidate, strict=True))
    return candidate


def suspect(space: Space, candidate: Candidate) -> Axis:
    """The changed axis to take back first where the losses differ."""
    changed = [axis for axis, at in zip(space.axes, candidate, strict=True) if at != axis.current]
    return min(changed, key=lambda axis: (axis.name in SCHEDULING, axis.name != "batch"))


def taken_back(space: Space, candidate: Candidate, fixed: Collection[str]) -> Candidate:
    """The candidate with the axes `fixed` at the baseline."""
    return tuple(axis.current if axis.name in fixed else at for axis, at in zip(space.axes, candidate, strict=True))


def _is_fixed(space: Space, candidate: Candidate, fixed: Collection[str]) -> bool:
    return taken_back(space, candidate, fixed) == candidate


def _without(axis: Axis, at: int, names: Collection[str]) -> int:
    """The point that has as many as possible of the other changes."""
    now = axis.points[axis.current]
    left = {name: value for name, value in changes(axis.points[at], now).items() if name not in names}
    if left == changes(axis.points[at], now):
        return at
    fewer = [changes(point, now) for point in axis.points]
    fitting = [other for other, point in enumerate(fewer) if point.items() <= left.items()]
    return max(fitting, key=lambda other: len(fewer[other]))
