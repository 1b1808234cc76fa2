"""What is believed of the speed of every candidate: the forecast, corrected by what was measured.

A Gaussian process on the logarithm of the speed whose mean is the forecast. What the forecast may be wrong by is, for
each axis, an error of its own at each point (as large as the forecast's interval for that change alone, the same
whatever else changes), and a smaller one of the combination. So one trial corrects every candidate that has a point in
common with it, and where nothing is forecast the measurements alone speak.
"""

from __future__ import annotations

import itertools
import math
import random
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from autotune.model.evidence import Value
from autotune.model.forecast import Forecast
from autotune.model.tuned import Candidate, Space

Numbers = NDArray[np.float64]
Forecaster = Callable[[Mapping[str, Value]], Forecast | None]
"""Settings -> the step time that is expected under them."""

NOISE = 0.03
"""Of a trial's speed: starts of the same files differ by about this on a machine with nothing else to do."""

DOUBLED = (1.0, 2.0, 4.0)
NOISE_DOUBT, EXCESS_DOUBT = 4.0, 1.0
"""Trials may be noisier, and the forecast more wrong, by these factors: how much likelier (twice the logarithm) the
trials have to be for each doubling."""

LEAST_ERROR, UNKNOWN_ERROR = 0.1, 0.2
"""Of the logarithm of the speed: what the best forecast of a change may be wrong by, and what no forecast is."""

SURE_ERROR = 0.01
"""The same where there is next to nothing that a change could save."""

COMBINED = 0.5
"""The error of a combination, of the errors of its changes."""

REACH, OTHER = 2.0, 0.3
"""Points of an ordered axis are alike over about this many steps; of any other this much."""

LEVEL = 10.0
"""Of the logarithm of the speed of the user's own: nothing is known of it before it was measured."""

MOST_CANDIDATES = 2000
"""Of a larger space so many are looked at, drawn at random, beside those with one change."""

SEED = 20_251
Z90 = 1.645


@dataclass(frozen=True, slots=True)
class Prior:
    """What is believed before any trial. `mean` is of the logarithm of the speed over the user's own.

    `at` has a row for each candidate and a column for each axis; `error[axis][point]` is the forecast's standard
    deviation for that change alone, `alike[axis][point, point]` how far its errors at two points are the same.
    Without a forecast (`is_forecast`) every mean is 0.
    """

    candidates: tuple[Candidate, ...]
    at: NDArray[np.intp]
    mean: Numbers
    error: tuple[Numbers, ...]
    alike: tuple[Numbers, ...]
    is_forecast: bool


@dataclass(frozen=True, slots=True)
class Belief:
    """Mean and standard deviation of the logarithm of the speed of every candidate, in the order of the prior's.

    `noise` is that of one trial.
    """

    mean: Numbers
    deviation: Numbers
    noise: float

    def gain_over(self, best: float) -> Numbers:
        """The expected improvement on a logarithm of the speed."""
        z = (self.mean - best) / self.deviation
        density = np.exp(-(z**2) / 2) / math.sqrt(2 * math.pi)
        below = np.array([0.5 * (1 + math.erf(one / math.sqrt(2))) for one in z])
        gain: Numbers = (self.mean - best) * below + self.deviation * density
        return gain


def candidates(space: Space, also: Iterable[Candidate] = ()) -> tuple[Candidate, ...]:
    """Every candidate, the user's own first; of a space that is too large a part, always the same, and `also`."""
    sizes = [range(len(axis.points)) for axis in space.axes]
    own = space.current
    alone = [(*own[:axis], at, *own[axis + 1 :]) for axis, size in enumerate(sizes) for at in size]
    if math.prod(map(len, sizes)) <= MOST_CANDIDATES:
        rest = list(itertools.product(*sizes))
    else:
        draw = random.Random(SEED)
        rest = [tuple(map(draw.choice, sizes)) for _ in range(MOST_CANDIDATES)]
    return tuple(dict.fromkeys([own, *alone, *rest, *also]))


def prior(space: Space, forecast: Forecaster, also: Iterable[Candidate] = ()) -> Prior:
    """What the forecast says of every candidate, `also` of these."""
    every = candidates(space, also)
    forecasts = [forecast(space.settings(one)) for one in every]
    own = forecasts[0]
    mean = [math.log(own.ms / one.ms) if own is not None and one is not None else 0.0 for one in forecasts]
    said = dict(zip(every, forecasts, strict=True))
    error = [np.array(_errors(space, axis, said)) for axis in range(len(space.axes))]
    alike = [_alike(len(axis.points), axis.is_ordered) for axis in space.axes]
    at = np.array(every, dtype=np.intp).reshape(len(every), len(space.axes))
    return Prior(every, at, np.array(mean), tuple(error), tuple(alike), own is not None)


def _errors(space: Space, axis: int, said: Mapping[Candidate, Forecast | None]) -> list[float]:
    """Of each point of an axis, alone: the user's own has none."""
    own = space.current
    alone = [(*own[:axis], at, *own[axis + 1 :]) for at in range(len(space.axes[axis].points))]
    return [0.0 if one == own else _error(said[one], space.changes(one)) for one in alone]


def _error(said: Forecast | None, changes: Mapping[str, Value]) -> float:
    if said is None:
        return UNKNOWN_ERROR
    is_modelled = not any(name in said.unmodelled for name in changes)
    error = max(LEAST_ERROR, math.log(said.high_ms / said.low_ms) / 2 / Z90) if is_modelled else UNKNOWN_ERROR
    if said.least_ms is None:
        return error
    # No change saves more than there is: upwards a forecast may be less wrong than it says.
    return min(error, max(SURE_ERROR, math.log(max(said.ms / said.least_ms, 1.0)) / Z90))


def _alike(size: int, is_ordered: bool) -> Numbers:
    apart = np.abs(np.subtract.outer(np.arange(size), np.arange(size)))
    return np.exp(-apart / REACH) if is_ordered else np.where(apart, OTHER, 1.0)


def believe(prior: Prior, measured: Sequence[tuple[Candidate, float]]) -> Belief:
    """The belief after trials: candidates and their speeds (any unit, above 0); a candidate may be there twice.

    Where the forecast was wrong by more than it said, it is believed less everywhere; trials that contradict one
    another are noisy.
    """
    rows = [prior.candidates.index(one) for one, _ in measured]
    found = np.log([speed for _, speed in measured]) - prior.mean[rows]
    own = _own_variance(prior)
    if not rows:
        return Belief(prior.mean, np.sqrt(own), NOISE)
    noise, excess = _fitted(found, shared := _covariance(prior, rows), rows)
    cross, level = excess**2 * shared + LEVEL**2, LEVEL**2
    weights = np.linalg.solve(cross[rows] + noise**2 * np.eye(len(rows)), cross.T)
    mean = prior.mean + found @ weights
    variance = excess**2 * own + level - np.einsum("ij,ji->i", cross, weights)
    return Belief(mean, np.sqrt(np.maximum(variance, 1e-12)), noise)


def _fitted(found: Numbers, shared: Numbers, rows: Sequence[int]) -> tuple[float, float]:
    """The noise of a trial and the excess of the forecast's errors under which the trials are most likely."""

    def likelihood(factors: tuple[float, float]) -> float:
        noisier, worse = factors
        known = worse**2 * shared[rows] + LEVEL**2 + (noisier * NOISE) ** 2 * np.eye(len(rows))
        doubt = NOISE_DOUBT * math.log2(noisier) + EXCESS_DOUBT * math.log2(worse)
        return float(-found @ np.linalg.solve(known, found) - np.linalg.slogdet(known)[1]) - doubt

    noisier, worse = max(itertools.product(DOUBLED, DOUBLED), key=likelihood)
    return noisier * NOISE, worse


def _covariance(prior: Prior, rows: Sequence[int]) -> Numbers:
    """Of the forecast's errors of every candidate with those of `rows`."""
    at, those = prior.at, prior.at[rows]
    shape = (len(at), len(rows))
    alone, together = np.zeros(shape), np.ones(shape)
    for axis, (error, alike) in enumerate(zip(prior.error, prior.alike, strict=True)):
        pairs = np.ix_(at[:, axis], those[:, axis])
        alone += np.outer(error[at[:, axis]], error[those[:, axis]]) * alike[pairs]
        together *= alike[pairs]
    joint = _joint(prior)
    return alone + np.outer(joint, joint[rows]) * together


def _own_variance(prior: Prior) -> Numbers:
    variance: Numbers = _alone(prior).sum(axis=1) + _joint(prior) ** 2
    return variance


def _alone(prior: Prior) -> Numbers:
    """The variance that each axis brings to each candidate."""
    alone = np.zeros(prior.at.shape)
    for axis, error in enumerate(prior.error):
        alone[:, axis] = error[prior.at[:, axis]] ** 2
    return alone


def _joint(prior: Prior) -> Numbers:
    """The standard deviation that a combination has beside those of its changes; a single change is none."""
    alone = _alone(prior)
    return np.where((alone > 0).sum(axis=1) > 1, COMBINED * np.sqrt(alone.sum(axis=1)), 0.0)
