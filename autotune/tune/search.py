"""The search: the baseline, what the forecast ranks first, then what the surrogate expects most of."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Sequence

from msgspec import Struct

from autotune.model.tuned import Candidate, Outcome, SearchTrial, Space
from autotune.tune.excluded import excluded
from autotune.tune.stopping import Stopping, not_worth, out_of
from autotune.tune.study import Study
from autotune.tune.surrogate import Forecaster, Posterior, Proposal, SurrogateSampler, completed, speeds, surrogate

Attempt = Callable[[int, Candidate, float | None], SearchTrial]
"""(number, candidate, the speedup over the baseline that the forecast gives it) -> how the trial ended."""

MAX_RIVALS = 3
"""Best candidates that are measured a second time where they are closer together than the noise of a trial."""


class NextTrial(Struct, frozen=True):
    """What to try next; None where the search ends, and why."""

    candidate: Candidate | None
    why: str = ""


def search(
    space: Space, study: Study, attempt: Attempt, stopping: Stopping, clock: Callable[[], float] = time.monotonic
) -> tuple[tuple[SearchTrial, ...], str]:
    """Try candidates until the search ends: all trials of the study, and why it ended."""
    began, own = clock(), set[int]()
    while True:
        trials = study.trials()
        why = out_of(stopping, clock() - began, trials)
        coming = (
            NextTrial(None, why) if why else next_trial(space, study.sampler, trials, study.running(), stopping, own)
        )
        if coming.candidate is None:
            return trials, coming.why
        with study.attempt(coming.candidate) as begun:
            if begun is not None:
                own.add(begun.number)
                expected = study.sampler.expected(begun.candidate)
                study.tell(begun, attempt(begun.number, begun.candidate, expected))


def next_trial(
    space: Space,
    sampler: SurrogateSampler,
    trials: Sequence[SearchTrial],
    running: frozenset[Candidate],
    stopping: Stopping,
    own: Collection[int],
) -> NextTrial:
    """What to try after these trials, of which this search made its `own`.

    The baseline is first. Where it failed in another search, it is tried once more: the reason may be over.
    """
    baseline = [trial for trial in trials if trial.candidate == space.current]
    if all(trial.outcome in (Outcome.FAILED, Outcome.TIMED_OUT) for trial in baseline):
        failed = [trial for trial in baseline if trial.number in own]
        if failed:
            return NextTrial(None, f"the script does not run as it is: {failed[0].error}")
        if space.current not in running:
            return NextTrial(space.current)
    ranked = _ranked(space, sampler, trials, running)
    if ranked is not None and not not_worth(stopping, ranked.gain, trials):
        return NextTrial(ranked.candidate)
    proposal = sampler.propose(trials, running)
    why = not_worth(stopping, proposal.gain, trials) if proposal is not None else "nothing is left to try"
    if proposal is not None and not why:
        return NextTrial(proposal.candidate)
    rivals = _rivals(space, sampler.surrogate(trials).posterior(speeds(trials)), trials, running)
    return NextTrial(rivals[0]) if rivals else NextTrial(None, why)


def fastest(space: Space, forecast: Forecaster, trials: Sequence[SearchTrial], among: Sequence[Candidate]) -> Candidate:
    """The fastest of these, by all that was measured; the baseline where there is none."""
    if not among:
        return space.current
    measured = speeds(trials)
    every = surrogate(space, forecast, [*among, *(one for one, _ in measured)])
    return max(among, key=every.posterior(measured).mean_of)


def _ranked(
    space: Space, sampler: SurrogateSampler, trials: Sequence[SearchTrial], running: frozenset[Candidate]
) -> Proposal | None:
    """The first of the best forecasts that was neither tried nor ruled out."""
    is_excluded, seen = excluded(space, trials), {*(trial.candidate for trial in trials), *running}
    for candidate, speedup in sampler.surrogate(trials).best_forecasts().items():
        if candidate not in seen and not is_excluded(candidate):
            return Proposal(candidate, 1 - 1 / speedup)
    return None


def _rivals(
    space: Space, posterior: Posterior, trials: Sequence[SearchTrial], running: frozenset[Candidate]
) -> list[Candidate]:
    """The best candidates that are closer together than the noise of a trial and were measured once."""
    means = dict(zip(posterior.candidates, posterior.mean, strict=True))
    mean = {one: float(means[one]) for one in completed(space, trials)}
    first = max(mean.values(), default=0.0)
    near = sorted((one for one in mean if mean[one] >= first - posterior.noise), key=lambda one: -mean[one])
    measured = [one for one, _ in speeds(trials)]
    once = [one for one in near[:MAX_RIVALS] if measured.count(one) < 2 and one not in running]
    return once if len(near) > 1 else []
