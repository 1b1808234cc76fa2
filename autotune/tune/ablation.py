"""Ablation of the winner: changes whose removal costs no more than the noise of a trial are dropped."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence

from msgspec import Struct

from autotune.model.evidence import Value
from autotune.model.tuned import Candidate, SearchTrial, SkippedSetting, Space
from autotune.report.units import percent
from autotune.tune.excluded import excluded
from autotune.tune.surrogate import NOISE, Z90, Forecaster, Posterior, completed, speeds, surrogate

Try = Callable[[Candidate], SearchTrial | None]
"""Tries a candidate: how that ended; None where time or trials are used up."""


class Ablation(Struct, frozen=True):
    """The winner without the changes that it does not need."""

    candidate: Candidate
    dropped: tuple[SkippedSetting, ...]

    brings: Mapping[str, float]
    """Share of the speed that each setting brings. Settings that only change together bring the same."""

    measured: frozenset[str]
    """Settings whose share is measured: the winner without them was tried. That of the others is expected."""


def ablate(
    space: Space, forecast: Forecaster, winner: Candidate, trials: Sequence[SearchTrial], attempt: Try
) -> Ablation:
    """Take changes back, one axis at a time, while the rest is as fast as the winner.

    Only candidates that may be as fast are tried, and only those that completed within the memory count.
    """
    tried, rest, dropped = tuple(trials), winner, tuple[SkippedSetting, ...]()
    while True:
        simpler = list(simpler_than(space, rest))
        before = surrogate(space, forecast, [winner, *simpler, *(one for one, _ in speeds(tried))])
        promising = _promising(before.posterior(speeds(tried)), winner, untried(space, tried, simpler))
        tried += tuple(trial for one in promising if (trial := attempt(one)) is not None)
        share = _share(before.posterior(speeds(tried)), winner)
        done = completed(space, tried)
        best = max((one for one in simpler if one in done), key=share, default=rest)
        if best == rest or share(best) < 1 - NOISE:
            return _ablation(space, rest, dropped, share, {one for one, _ in speeds(tried)})
        dropped += tuple(_dropped(space, rest, best, share(best)))
        rest = best


def untried(space: Space, trials: Sequence[SearchTrial], wanted: Iterable[Candidate]) -> list[Candidate]:
    """Candidates that were neither tried nor ruled out by the trials."""
    is_excluded, known = excluded(space, trials), {trial.candidate for trial in trials}
    return [one for one in wanted if one not in known and not is_excluded(one)]


def simpler_than(space: Space, candidate: Candidate) -> Iterator[Candidate]:
    """The candidate with fewer changes on one axis: the changes that stay keep their values."""
    for number, (axis, at) in enumerate(zip(space.axes, candidate, strict=True)):
        now = axis.points[axis.current]
        every = changes(axis.points[at], now)
        for other, point in enumerate(axis.points):
            if changes(point, now).items() < every.items():
                yield (*candidate[:number], other, *candidate[number + 1 :])


def changes(point: Mapping[str, Value], now: Mapping[str, Value]) -> dict[str, Value]:
    """The settings of a point that differ from the point `now`."""
    return {name: value for name, value in point.items() if now.get(name) != value}


def _promising(posterior: Posterior, winner: Candidate, simpler: Iterable[Candidate]) -> list[Candidate]:
    """The simpler candidates that may be as fast as the winner."""
    least = posterior.mean_of(winner) + math.log(1 - NOISE)
    return [one for one in simpler if posterior.mean_of(one) + Z90 * posterior.deviation_of(one) >= least]


def _share(posterior: Posterior, winner: Candidate) -> Callable[[Candidate], float]:
    """The speed of a candidate as a share of that of the winner."""
    return lambda candidate: math.exp(posterior.mean_of(candidate) - posterior.mean_of(winner))


def _dropped(space: Space, rest: Candidate, simpler: Candidate, ratio: float) -> Iterator[SkippedSetting]:
    left = space.changes(simpler)
    for name in space.changes(rest):
        if name not in left:
            brings = f"it brings {percent(1 - ratio)}" if ratio < 1 else "it brings nothing"
            yield SkippedSetting(name, f"{brings}: less than the noise of a trial ({percent(NOISE)})")


def _ablation(
    space: Space,
    rest: Candidate,
    dropped: tuple[SkippedSetting, ...],
    share: Callable[[Candidate], float],
    measured: Collection[Candidate],
) -> Ablation:
    """With the share of the speed that is lost without each setting's axis."""
    without: dict[str, Candidate] = {}
    for number, axis in enumerate(space.axes):
        lost = changes(axis.points[rest[number]], axis.points[axis.current])
        without |= dict.fromkeys(lost, (*rest[:number], axis.current, *rest[number + 1 :]))
    brings = {name: 1 - share(one) / share(rest) for name, one in without.items()}
    return Ablation(rest, dropped, brings, frozenset(name for name, one in without.items() if one in measured))
