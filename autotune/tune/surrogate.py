"""The sampler of `tune`: a Gaussian process on the logarithm of the speed, as a sampler of Optuna.

Its trials follow those of the baseline and of the candidates that the forecast ranks first. Each axis has an effect at
each of its points, and a combination has a smaller effect of its own. One trial therefore informs every candidate that
shares a point with it. Where the forecast knows that a change can save next to nothing, its effect is bounded from the
start.

It stays because it wins `benchmarks/search.py` against TPE with the same first trials (docs/search.md).
After the forecast's candidates it needs as many trials as TPE to come within 3 % of the best (4.6), and its regret in
the end is half of TPE's (1.5 % for 3.1 %). Without a forecast it needs 7 trials for 17, and its regret is 2.3 % for
11.7 %. Optuna's GPSampler is as good with four trials more; it needs torch and scipy, which autotune does without.
"""

from __future__ import annotations

import itertools
import math
import random
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import optuna
from msgspec import Struct
from numpy.typing import NDArray
from optuna.distributions import BaseDistribution
from optuna.samplers import BaseSampler
from optuna.trial import FrozenTrial

from autotune.model.evidence import Value
from autotune.model.forecast import Forecast
from autotune.model.tuned import Candidate, Outcome, SearchTrial, Space
from autotune.tune.excluded import excluded, fits
from autotune.tune.parameters import distributions, params

Numbers = NDArray[np.float64]
Forecaster = Callable[[Mapping[str, Value]], Forecast | None]
"""Settings -> the step time that is expected under them."""

NUM_FORECAST = 3
"""Candidates that are tried because the forecast ranks them first."""

NOISE = 0.03
"""Standard deviation of the logarithm of the speed: two runs of the same files on an idle machine."""

FACTORS = (1.0, 2.0, 4.0)
NOISE_PENALTY, EFFECT_PENALTY = 4.0, 1.0
"""The noise and the effects may be larger by these factors. Each doubling has to raise twice the log-likelihood of the
trials by the penalty."""

EFFECT = 0.2
"""Standard deviation of the effect of one change on the logarithm of the speed."""

BOUNDED_EFFECT = 0.01
"""The same where the forecast says that there is nothing to save."""

INTERACTION = 0.5
"""Effect of a combination, relative to the effects of its changes."""

LENGTH_SCALE, UNORDERED = 2.0, 0.3
"""Correlation of two points of an axis: it decays over about this many points of an ordered axis, and is constant on
any other."""

LEVEL = 10.0
"""Standard deviation of the baseline's logarithm of the speed: nothing is known of it before the first trial."""

MOST_LIKELY = 256
"""Trials by which the noise and the effects are judged, spread over all of them: the cost of that is cubic."""

MAX_CANDIDATES = 2000
"""Sample of a larger space, in addition to the candidates with one change."""

SEED = 20_251
Z90 = 1.645


class Posterior(Struct, frozen=True):
    """Mean and standard deviation of the logarithm of the speed of each candidate, after the trials."""

    candidates: tuple[Candidate, ...]
    mean: Numbers
    deviation: Numbers
    noise: float
    """Standard deviation of one trial."""

    def mean_of(self, candidate: Candidate) -> float:
        return float(self.mean[self.candidates.index(candidate)])

    def deviation_of(self, candidate: Candidate) -> float:
        return float(self.deviation[self.candidates.index(candidate)])

    def expected_improvement(self, best: float) -> Numbers:
        """Over the logarithm of a speed."""
        z = (self.mean - best) / self.deviation
        density = np.exp(-(z**2) / 2) / math.sqrt(2 * math.pi)
        below = np.array([0.5 * (1 + math.erf(one / math.sqrt(2))) for one in z])
        gain: Numbers = (self.mean - best) * below + self.deviation * density
        return gain


class Surrogate(Struct, frozen=True):
    """The Gaussian process before any trial."""

    candidates: tuple[Candidate, ...]
    forecast: tuple[float | None, ...]
    """Speedup over the baseline that the forecast gives each candidate."""

    points: NDArray[np.intp]
    """A row for each candidate, a column for each axis."""

    effect: tuple[Numbers, ...]
    """For each axis: the standard deviation of the effect of each of its points."""

    correlation: tuple[Numbers, ...]
    """For each axis: how far the effects of two of its points are the same."""

    def posterior(self, measured: Sequence[tuple[Candidate, float]]) -> Posterior:
        """The posterior after trials: candidates and their speeds (any unit, above 0). A candidate may occur twice."""
        place = {candidate: at for at, candidate in enumerate(self.candidates)}
        rows = [place[candidate] for candidate, _ in measured]
        observed = np.log([speed for _, speed in measured])
        variance = self._variance()
        if not rows:
            return Posterior(self.candidates, np.zeros(len(variance)), np.sqrt(variance), NOISE)
        shared = self._covariance(rows)
        every = (
            np.arange(len(rows)) if len(rows) <= MOST_LIKELY else np.linspace(0, len(rows) - 1, MOST_LIKELY, dtype=int)
        )
        noise, factor = _most_likely(observed[every], shared[np.ix_(np.array(rows)[every], every)])
        cross = factor**2 * shared + LEVEL**2
        weights = np.linalg.solve(cross[rows] + noise**2 * np.eye(len(rows)), cross.T)
        reduced = factor**2 * variance + LEVEL**2 - np.einsum("ij,ji->i", cross, weights)
        return Posterior(self.candidates, observed @ weights, np.sqrt(np.maximum(reduced, 1e-12)), noise)

    def best_forecasts(self) -> dict[Candidate, float]:
        """The candidates that the forecast ranks first, with their speedups over the baseline, all above 1.

        Of candidates with the same forecast, which differ only by settings without a model, it is the first one.
        """
        faster: dict[float, Candidate] = {}
        for speedup, candidate in zip(self.forecast, self.candidates, strict=True):
            if speedup is not None and speedup > 1.0:
                faster.setdefault(round(speedup, 6), candidate)
        return {faster[speedup]: speedup for speedup in sorted(faster, reverse=True)[:NUM_FORECAST]}

    def _covariance(self, rows: Sequence[int]) -> Numbers:
        """Of the effects of every candidate with those of `rows`."""
        at, those = self.points, self.points[rows]
        single, together = np.zeros((len(at), len(rows))), np.ones((len(at), len(rows)))
        for axis, (effect, correlation) in enumerate(zip(self.effect, self.correlation, strict=True)):
            correlated = correlation[np.ix_(at[:, axis], those[:, axis])]
            single += np.outer(effect[at[:, axis]], effect[those[:, axis]]) * correlated
            together *= correlated
        interaction = self._interaction()
        return single + np.outer(interaction, interaction[rows]) * together

    def _variance(self) -> Numbers:
        variance: Numbers = self._single().sum(axis=1) + self._interaction() ** 2
        return variance

    def _single(self) -> Numbers:
        """The variance that each axis adds to each candidate."""
        single = np.zeros(self.points.shape)
        for axis, effect in enumerate(self.effect):
            single[:, axis] = effect[self.points[:, axis]] ** 2
        return single

    def _interaction(self) -> Numbers:
        """The standard deviation of the effect of a combination, in addition to those of its changes."""
        single = self._single()
        return np.where((single > 0).sum(axis=1) > 1, INTERACTION * np.sqrt(single.sum(axis=1)), 0.0)


def surrogate(space: Space, forecast: Forecaster, also: Iterable[Candidate] = ()) -> Surrogate:
    """The Gaussian process of a space, `also` of these candidates."""
    every = candidates(space, also)
    forecasts = {one: forecast(space.settings(one)) for one in every}
    now = forecasts[space.current]
    speedups = tuple(now.ms / said.ms if now is not None and said is not None else None for said in forecasts.values())
    points = np.array(every, dtype=np.intp).reshape(len(every), len(space.axes))
    effect = tuple(
        np.array([_effect(space, axis, at, forecasts) for at in range(len(found.points))])
        for axis, found in enumerate(space.axes)
    )
    correlation = tuple(_correlation(len(axis.points), axis.is_ordered) for axis in space.axes)
    return Surrogate(every, speedups, points, effect, correlation)


def candidates(space: Space, also: Iterable[Candidate] = ()) -> tuple[Candidate, ...]:
    """Every candidate, the baseline first; of a space that is too large a fixed sample, and `also`."""
    sizes = [range(len(axis.points)) for axis in space.axes]
    single = [_single_change(space, axis, at) for axis, size in enumerate(sizes) for at in size]
    if math.prod(map(len, sizes)) <= MAX_CANDIDATES:
        rest = list(itertools.product(*sizes))
    else:
        draw = random.Random(SEED)
        rest = [tuple(map(draw.choice, sizes)) for _ in range(MAX_CANDIDATES)]
    return tuple(dict.fromkeys([space.current, *single, *rest, *also]))


def _single_change(space: Space, axis: int, at: int) -> Candidate:
    return (*space.current[:axis], at, *space.current[axis + 1 :])


def _effect(space: Space, axis: int, at: int, forecasts: Mapping[Candidate, Forecast | None]) -> float:
    """The standard deviation of the effect of one point; a change saves no more than the forecast says there is."""
    candidate = _single_change(space, axis, at)
    if candidate == space.current:
        return 0.0
    baseline, said = forecasts[space.current], forecasts[candidate]
    if baseline is None or said is None or said.least_ms is None:
        return EFFECT
    return min(EFFECT, max(BOUNDED_EFFECT, math.log(max(baseline.ms / said.least_ms, 1.0)) / Z90))


def _correlation(size: int, is_ordered: bool) -> Numbers:
    apart = np.abs(np.subtract.outer(np.arange(size), np.arange(size)))
    return np.exp(-apart / LENGTH_SCALE) if is_ordered else np.where(apart, UNORDERED, 1.0)


def _most_likely(observed: Numbers, shared: Numbers) -> tuple[float, float]:
    """The noise of a trial and the factor of the effects under which the trials are most likely."""

    def likelihood(factors: tuple[float, float]) -> float:
        noise, effect = factors
        known = effect**2 * shared + LEVEL**2 + (noise * NOISE) ** 2 * np.eye(len(observed))
        penalty = NOISE_PENALTY * math.log2(noise) + EFFECT_PENALTY * math.log2(effect)
        return float(-observed @ np.linalg.solve(known, observed) - np.linalg.slogdet(known)[1]) - penalty

    noise, effect = max(itertools.product(FACTORS, FACTORS), key=likelihood)
    return noise * NOISE, effect


class Proposal(Struct, frozen=True):
    """The next candidate, and what it may be expected to save of the step, as a share."""

    candidate: Candidate
    gain: float


Known = Callable[[optuna.Study], tuple[Sequence[SearchTrial], Collection[Candidate]]]
"""A study -> the trials that ended, and the candidates that run at the moment."""


class SurrogateSampler(BaseSampler):
    """Proposes the candidate with the most expected improvement, of those that were neither tried nor ruled out."""

    def __init__(self, space: Space, forecast: Forecaster, known: Known) -> None:
        self._space, self._forecast, self._known = space, forecast, known
        self._surrogate = surrogate(space, forecast)
        self._known_candidates = frozenset(self._surrogate.candidates)

    def surrogate(self, trials: Sequence[SearchTrial]) -> Surrogate:
        """The surrogate, of the candidates of these trials too."""
        if not self._known_candidates.issuperset(trial.candidate for trial in trials):
            self._surrogate = surrogate(self._space, self._forecast, [trial.candidate for trial in trials])
            self._known_candidates = frozenset(self._surrogate.candidates)
        return self._surrogate

    def propose(self, trials: Sequence[SearchTrial], running: Collection[Candidate]) -> Proposal | None:
        """What to try after these trials; None where nothing is left. Without any speed, the gain is 1."""
        posterior = self.surrogate(trials).posterior(speeds(trials))
        is_excluded, seen = excluded(self._space, trials), {*(trial.candidate for trial in trials), *running}
        is_open = np.array([not (one in seen or is_excluded(one)) for one in posterior.candidates])
        if not is_open.any():
            return None
        means = dict(zip(posterior.candidates, posterior.mean, strict=True))
        best = max((float(means[one]) for one in completed(self._space, trials)), default=None)
        if best is None:
            return Proposal(posterior.candidates[int(np.argmax(np.where(is_open, posterior.mean, -math.inf)))], 1.0)
        gain = np.where(is_open, posterior.expected_improvement(best), -math.inf)
        at = int(np.argmax(gain))
        return Proposal(posterior.candidates[at], 1 - math.exp(-gain[at]))

    def expected(self, candidate: Candidate) -> float | None:
        """The speedup over the baseline by the forecast; None without one."""
        now, then = (self._forecast(self._space.settings(one)) for one in (self._space.current, candidate))
        return now.ms / then.ms if now is not None and then is not None else None

    def infer_relative_search_space(self, study: optuna.Study, trial: FrozenTrial) -> dict[str, BaseDistribution]:
        return distributions(self._space)

    def sample_relative(
        self, study: optuna.Study, trial: FrozenTrial, search_space: dict[str, BaseDistribution]
    ) -> dict[str, Any]:
        proposal = self.propose(*self._known(study))
        return params(self._space, proposal.candidate if proposal is not None else self._space.current)

    def sample_independent(
        self, study: optuna.Study, trial: FrozenTrial, param_name: str, param_distribution: BaseDistribution
    ) -> Any:
        return params(self._space, self._space.current)[param_name]


def completed(space: Space, trials: Sequence[SearchTrial]) -> list[Candidate]:
    """What completed within the memory."""
    good = [trial for trial in trials if trial.outcome == Outcome.COMPLETED and fits(space, trials, trial)]
    return list(dict.fromkeys(trial.candidate for trial in good))


def speeds(trials: Sequence[SearchTrial]) -> list[tuple[Candidate, float]]:
    """Samples per second of each trial that has a speed."""
    return [(trial.candidate, trial.samples_per_s) for trial in trials if trial.samples_per_s]
