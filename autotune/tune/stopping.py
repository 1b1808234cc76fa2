"""When a search ends, and what it says of it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean

from autotune.model.tuned import Candidate, Outcome, Trial
from autotune.report.units import duration

LEAST_GAIN = 0.005
"""Of the step: a trial that is expected to bring less ends a search whose run is of unknown length."""

PATIENCE, BEYOND = 8, 0.03
"""After so many candidates in a row, each the most promising one then, none of which was faster than the best before
them by more than this, nothing is expected of another: trials differ by that much by themselves."""


@dataclass(frozen=True, slots=True)
class Stopping:
    """What the search may take: seconds (the user's budget less the proof) or trials (None: no limit), and how long the
    planned run takes now.

    A run that is shorter than the budget is not what it is searched for: then `planned_s` does not count.
    """

    budget_s: float | None = None
    trials: int | None = None
    planned_s: float | None = None


def out_of(stopping: Stopping, spent_s: float, trials: Sequence[Trial]) -> str:
    """Why no further trial may be made; "" where one may. `spent_s` is what this search took so far."""
    if stopping.trials is not None and len(trials) >= stopping.trials:
        return f"the {_several(stopping.trials)} that were allowed are made"
    if stopping.budget_s is not None and spent_s + trial_s(trials) > stopping.budget_s:
        return "what the budget leaves beside the proof does not hold another trial"
    return ""


def not_worth(stopping: Stopping, gain: float, trials: Sequence[Trial]) -> str:
    """Why the next trial is not worth making; "" where it is. `gain` is what it may be expected to save of a step.

    The planned run is measured by what it would take as it is; where its length is not known the gain alone decides.
    """
    planned_s, cost_s = stopping.planned_s, trial_s(trials)
    if planned_s is not None and planned_s > (stopping.budget_s or 0.0) and cost_s:
        if gain * planned_s < cost_s:
            return (
                f"another trial takes {duration(cost_s)} and may be expected to save "
                f"{duration(gain * planned_s)} of the planned run"
            )
    elif in_vain(trials) >= PATIENCE:
        return f"the last {PATIENCE} trials brought nothing beyond the {BEYOND:.0%} by which trials differ".replace(
            "%", " %"
        )
    elif gain < LEAST_GAIN:
        return f"another trial may be expected to bring less than {LEAST_GAIN:.1%} of the step".replace("%", " %")
    return ""


def in_vain(trials: Sequence[Trial]) -> int:
    """Candidates that were measured since the last one that was faster than the best before by more than noise.

    One that failed or ran out of memory says nothing of the speed of others, and a second measurement nothing new.
    """
    best, found = 0.0, set[Candidate]()
    for trial in trials:
        speed = trial.samples_per_s if trial.outcome in (Outcome.COMPLETED, Outcome.PRUNED) else None
        if speed is not None and speed > best * (1 + BEYOND):
            best, found = speed, set()
        elif speed is not None:
            found.add(trial.candidate)
    return len(found)


def trial_s(trials: Sequence[Trial]) -> float:
    """What a trial takes, by those that were made; 0 before the first."""
    return fmean(trial.wall_s for trial in trials) if trials else 0.0


def _several(count: int) -> str:
    return f"{count} trial" if count == 1 else f"{count} trials"
