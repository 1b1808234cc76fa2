"""What is to be proven: the fastest that `apply` can write whole, without the changes that bring nothing."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from functools import cache

from autotune.model.tuned import SCHEDULING, Axis, Candidate, Space, Trial
from autotune.tune.belief import Forecaster
from autotune.tune.minimal import Minimal, Try, changes, minimal, untried
from autotune.tune.search import done, fastest

ByHand = Callable[[Candidate], frozenset[str]]
"""The changes of a candidate that no edit makes: a person has to."""


@dataclass(frozen=True, slots=True)
class Choice:
    """`least` is to be proven; `fastest` is the same, or faster still by changes that no edit makes.

    Each is the user's own or completed in a trial. All changes of `least` can be written; only where no such one that
    was tried is faster than the user's own it has others.
    """

    least: Minimal
    fastest: Minimal


def choose(
    space: Space,
    forecast: Forecaster,
    trials: Sequence[Trial],
    attempt: Try,
    by_hand: ByHand,
    fixed: Collection[str] = (),
    also: Sequence[Candidate] = (),
) -> Choice:
    """The choice after these trials: axes that are `fixed` stay as the user has them.

    `attempt` tries what has to be known for it: a winner without some of its changes, and `also`.
    """
    seen, is_by_hand = list(trials), cache(by_hand)

    def tried(one: Candidate) -> Trial | None:
        trial = attempt(one)
        seen.extend([] if trial is None else [trial])
        return trial

    def least(also: Sequence[Candidate], is_open: Callable[[Candidate], bool]) -> Minimal:
        for one in untried(space, seen, also):
            tried(one)
        best = fastest(space, forecast, seen, [one for one in done(space, seen) if is_open(one)])
        return minimal(space, forecast, best, tuple(seen), tried)

    first = least(also, lambda one: _is_fixed(space, one, fixed))
    whole = written(space, first.candidate, is_by_hand)
    if whole == first.candidate:
        return Choice(first, first)
    second = least([whole], lambda one: _is_fixed(space, one, fixed) and not is_by_hand(one))
    return Choice(first if second.candidate == space.current else second, first)


def written(space: Space, candidate: Candidate, by_hand: ByHand) -> Candidate:
    """The candidate without the changes that are by hand, and without those that are so when they are gone."""
    while names := by_hand(candidate):
        candidate = tuple(_without(axis, at, names) for axis, at in zip(space.axes, candidate, strict=True))
    return candidate


def suspect(space: Space, candidate: Candidate) -> Axis:
    """The changed axis to take back first where the losses are others than they should be."""
    changed = [axis for axis, at in zip(space.axes, candidate, strict=True) if at != axis.current]
    return min(changed, key=lambda axis: (axis.name in SCHEDULING, axis.name != "batch"))


def taken_back(space: Space, candidate: Candidate, fixed: Collection[str]) -> Candidate:
    """The candidate with the axes `fixed` as the user has them."""
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
