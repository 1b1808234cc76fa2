"""Which candidate to try next, and when to stop: the forecast says what to begin with, the trials correct it."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass

import numpy as np

from autotune.model.tuned import Candidate, Outcome, Space, Trial
from autotune.tune.belief import Belief, Forecaster, Prior, believe, prior
from autotune.tune.excluded import excluded, fits
from autotune.tune.stopping import Stopping, not_worth, out_of
from autotune.tune.study import Study

Attempt = Callable[[int, Candidate, float | None], Trial]
"""(number, candidate, the speedup that is expected of it) -> how the trial ended."""

MOST_RIVALS = 3
"""So many of the best, when they are within the noise of a trial, are measured a second time."""


@dataclass(frozen=True, slots=True)
class Next:
    """What to try; None when there is nothing, and `why`."""

    candidate: Candidate | None
    why: str = ""


def search(
    space: Space,
    forecast: Forecaster,
    attempt: Attempt,
    stopping: Stopping,
    study: Study,
    clock: Callable[[], float] = time.monotonic,
) -> tuple[tuple[Trial, ...], str]:
    """Try candidates until the search is over: all trials of the study, and why it stopped, in words.

    The user's own configuration is the first trial. Trials that the study has already are known.
    """
    began, before, made = clock(), prior(space, forecast), set[int]()
    while True:
        trials = study.trials()
        if any(trial.candidate not in before.candidates for trial in trials):
            before = prior(space, forecast, [trial.candidate for trial in trials])
        why = out_of(stopping, clock() - began, trials)
        step = Next(None, why) if why else following(space, before, trials, study.running(), stopping, made)
        if step.candidate is None:
            return trials, step.why
        with study.attempt(step.candidate) as asked:
            if asked is not None:
                made.add(asked.number)
                expected = _expected(before, trials, asked.candidate)
                study.tell(asked, attempt(asked.number, asked.candidate, expected))


def fastest(space: Space, forecast: Forecaster, trials: Sequence[Trial], among: Sequence[Candidate]) -> Candidate:
    """The fastest of these, by all that was measured; the user's own when there is none."""
    if not among:
        return space.current
    before = prior(space, forecast, [*among, *(trial.candidate for trial in trials)])
    mean = believe(before, speeds(trials)).mean
    return max(among, key=lambda one: mean[before.candidates.index(one)])


def following(
    space: Space,
    before: Prior,
    trials: Sequence[Trial],
    running: frozenset[Candidate],
    stopping: Stopping,
    made: Collection[int],
) -> Next:
    """What to try after these trials, of which this search `made` those of these numbers.

    The user's own is tried first; where it failed in another search, whose reason may be over, it is tried again.
    """
    own = [trial for trial in trials if trial.candidate == space.current]
    if all(trial.outcome in (Outcome.FAILED, Outcome.TIMED_OUT) for trial in own):
        failed = [trial for trial in own if trial.number in made]
        if failed:
            return Next(None, f"the script does not run as it is: {failed[0].error}")
        if space.current not in running:
            return Next(space.current)
    belief = believe(before, speeds(trials))
    chosen, gain = _most_promising(space, before, belief, trials, running)
    why = not_worth(stopping, gain, trials) if chosen is not None else "nothing is left to try"
    if chosen is not None and not why:
        return Next(chosen)
    rivals = _rivals(space, before, belief, trials, running)
    return Next(rivals[0]) if rivals else Next(None, why)


def _most_promising(
    space: Space, before: Prior, belief: Belief, trials: Sequence[Trial], running: frozenset[Candidate]
) -> tuple[Candidate | None, float]:
    """The untried candidate with the most expected gain over the best, and that gain, of the step."""
    is_excluded, seen = excluded(space, trials), {trial.candidate for trial in trials} | running
    is_open = np.array([not (one in seen or is_excluded(one)) for one in before.candidates])
    if not is_open.any():
        return None, 0.0
    known = [belief.mean[before.candidates.index(one)] for one in done(space, trials)]
    gain = np.where(is_open, belief.gain_over(max(known, default=-math.inf)), -math.inf) if known else None
    at = int(np.argmax(gain if gain is not None else np.where(is_open, belief.mean, -math.inf)))
    return before.candidates[at], 1 - math.exp(-gain[at]) if gain is not None else 1.0


def _rivals(
    space: Space, before: Prior, belief: Belief, trials: Sequence[Trial], running: frozenset[Candidate]
) -> list[Candidate]:
    """Those of the best, as close as trials differ by themselves, that were measured only once; a lone one has none."""
    mean = {one: belief.mean[before.candidates.index(one)] for one in done(space, trials)}
    first = max(mean.values(), default=0.0)
    close = sorted((one for one in mean if mean[one] >= first - belief.noise), key=lambda one: -mean[one])[:MOST_RIVALS]
    counts = {one: sum(trial.candidate == one and trial.samples_per_s is not None for trial in trials) for one in close}
    return [one for one in close if counts[one] < 2 and one not in running] if len(close) > 1 else []


def done(space: Space, trials: Sequence[Trial]) -> list[Candidate]:
    """What completed and fits."""
    good = [trial for trial in trials if trial.outcome == Outcome.COMPLETED and fits(space, trials, trial)]
    return list(dict.fromkeys(trial.candidate for trial in good))


def speeds(trials: Sequence[Trial]) -> list[tuple[Candidate, float]]:
    """What was measured: candidates, again where they were tried again, and their samples per second."""
    return [(trial.candidate, trial.samples_per_s) for trial in trials if trial.samples_per_s]


def _expected(before: Prior, trials: Sequence[Trial], candidate: Candidate) -> float | None:
    """The speedup over the user's own; None without a forecast."""
    if not before.is_forecast:
        return None
    mean = believe(before, speeds(trials)).mean
    return float(np.exp(mean[before.candidates.index(candidate)] - mean[0]))
