"""Which changes of the winner it can do without: those whose removal costs nothing beyond the noise of a trial."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from autotune.model.evidence import Value
from autotune.model.tuned import Candidate, LeftOut, Outcome, Space, Trial
from autotune.report.units import percent
from autotune.tune.belief import NOISE, Z90, Belief, Forecaster, Prior, believe, prior
from autotune.tune.excluded import excluded, fits
from autotune.tune.search import speeds

Try = Callable[[Candidate], Trial | None]
"""Tries a candidate: how that ended; None when it cannot be paid any more."""


@dataclass(frozen=True, slots=True)
class Minimal:
    """What is left of the winner, what was dropped and why, and the share of the speed that each kept setting brings.

    Settings that only change together bring the same. It is `measured` where what is left without them was tried, or
    else expected.
    """

    candidate: Candidate
    dropped: tuple[LeftOut, ...]
    brings: Mapping[str, float]
    measured: frozenset[str]


def minimal(space: Space, forecast: Forecaster, winner: Candidate, trials: Sequence[Trial], attempt: Try) -> Minimal:
    """Take changes back while what is left is as fast as the winner, by what is believed after the trials.

    Only what completed and fits is taken for as fast, and only what may be is tried; what was tried before, whatever
    its outcome, is not tried again.
    """
    tried, kept, dropped = tuple(trials), winner, tuple[LeftOut, ...]()
    while True:
        simpler = list(simpler_than(space, kept))
        before = prior(space, forecast, [winner, *simpler, *(one for one, _ in speeds(tried))])
        tried += tuple(_tried(before, tried, winner, untried(space, tried, simpler), attempt))
        share = _share(before, believe(before, speeds(tried)), winner)
        good = {trial.candidate for trial in tried if trial.outcome == Outcome.COMPLETED and fits(space, tried, trial)}
        best = max((one for one in simpler if one in good), key=share, default=kept)
        if best == kept or share(best) < 1 - NOISE:
            return _told(space, kept, dropped, share, {one for one, _ in speeds(tried)})
        dropped += tuple(_dropped(space, kept, best, share(best)))
        kept = best


def untried(space: Space, trials: Sequence[Trial], wanted: Iterable[Candidate]) -> list[Candidate]:
    """Those that were not tried, and that the trials do not rule out."""
    is_excluded, known = excluded(space, trials), {trial.candidate for trial in trials}
    return [one for one in wanted if one not in known and not is_excluded(one)]


def _tried(
    before: Prior, trials: Sequence[Trial], winner: Candidate, simpler: Iterable[Candidate], attempt: Try
) -> Iterator[Trial]:
    """The trials of those that may be as fast as the winner."""
    belief = believe(before, speeds(trials))
    least = belief.mean[before.candidates.index(winner)] + math.log(1 - NOISE)
    for one in simpler:
        at = before.candidates.index(one)
        if belief.mean[at] + Z90 * belief.deviation[at] >= least:
            trial = attempt(one)
            if trial is not None:
                yield trial


def _share(before: Prior, belief: Belief, winner: Candidate) -> Callable[[Candidate], float]:
    """How fast a candidate is, of the winner."""

    def share(candidate: Candidate) -> float:
        at, of = before.candidates.index(candidate), before.candidates.index(winner)
        return math.exp(belief.mean[at] - belief.mean[of])

    return share


def simpler_than(space: Space, candidate: Candidate) -> Iterator[Candidate]:
    """The candidate with fewer changes on one axis: none of them, or those that stay keep their values."""
    for number, (axis, at) in enumerate(zip(space.axes, candidate, strict=True)):
        now = axis.points[axis.current]
        all_of = changes(axis.points[at], now)
        for other, point in enumerate(axis.points):
            if changes(point, now).items() < all_of.items():
                yield (*candidate[:number], other, *candidate[number + 1 :])


def changes(point: Mapping[str, Value], now: Mapping[str, Value]) -> dict[str, Value]:
    """What a point of an axis has otherwise than the point `now`."""
    return {name: value for name, value in point.items() if now.get(name) != value}


def _dropped(space: Space, kept: Candidate, simpler: Candidate, ratio: float) -> Iterator[LeftOut]:
    left = space.changes(simpler)
    for name in space.changes(kept):
        if name not in left:
            brings = f"it brings {percent(1 - ratio)}" if ratio < 1 else "it brings nothing"
            yield LeftOut(name, f"{brings}: less than trials differ by themselves ({percent(NOISE)})")


def _told(
    space: Space,
    kept: Candidate,
    dropped: tuple[LeftOut, ...],
    share: Callable[[Candidate], float],
    measured: Collection[Candidate],
) -> Minimal:
    """With the share of the speed that is lost without each setting's axis."""
    without: dict[str, Candidate] = {}
    for number, axis in enumerate(space.axes):
        lost = changes(axis.points[kept[number]], axis.points[axis.current])
        without |= dict.fromkeys(lost, (*kept[:number], axis.current, *kept[number + 1 :]))
    brings = {name: 1 - share(one) / share(kept) for name, one in without.items()}
    return Minimal(kept, dropped, brings, frozenset(name for name, one in without.items() if one in measured))
