"""When a search ends, and the reason in words."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import fmean

from msgspec import Struct

from autotune.model.tuned import Candidate, Outcome, SearchTrial
from autotune.report.units import duration, percent
from autotune.tune.surrogate import NOISE

LEAST_GAIN = 0.005
"""Share of the step that a trial has to be expected to save where the length of the run is not known."""

PATIENCE = 8
"""A search ends after so many candidates in a row that were not faster than the best before them by more than noise."""


class Stopping(Struct, frozen=True):
    """What the search may take; None where there is no limit."""

    budget_s: float | None = None
    """The user's budget without the confirmation."""

    trials: int | None = None

    planned_s: float | None = None
    """What the planned run takes now. It decides only where it is longer than the budget."""


def out_of(stopping: Stopping, spent_s: float, trials: Sequence[SearchTrial]) -> str:
    """Why no further trial may be made after `spent_s` seconds; "" where one may."""
    if stopping.trials is not None and len(trials) >= stopping.trials:
        return f"the limit of {_several(stopping.trials)} is reached"
    if stopping.budget_s is not None and spent_s + trial_s(trials) > stopping.budget_s:
        return "the budget holds the confirmation and no further trial"
    return ""


def not_worth(stopping: Stopping, gain: float, trials: Sequence[SearchTrial]) -> str:
    """Why a trial that is expected to save the share `gain` of the step is not worth its time; "" where it is."""
    planned_s, cost_s = stopping.planned_s, trial_s(trials)
    if planned_s is not None and planned_s > (stopping.budget_s or 0.0) and cost_s:
        if gain * planned_s < cost_s:
            saved = duration(gain * planned_s)
            return f"another trial takes {duration(cost_s)} and is expected to save {saved} of the planned run"
    elif in_vain(trials) >= PATIENCE:
        return f"none of the last {PATIENCE} candidates was faster by more than the noise of {percent(NOISE)}"
    elif gain < LEAST_GAIN:
        return f"another trial is expected to save less than {percent(LEAST_GAIN)} of the step"
    return ""


def in_vain(trials: Sequence[SearchTrial]) -> int:
    """Candidates since the last one that was faster than the best before it by more than noise.

    A trial that failed says nothing about the speed of others, and a second measurement of a candidate nothing new.
    """
    best, found = 0.0, set[Candidate]()
    for trial in trials:
        speed = trial.samples_per_s if trial.outcome in (Outcome.COMPLETED, Outcome.PRUNED) else None
        if speed is not None and speed > best * (1 + NOISE):
            best, found = speed, set()
        elif speed is not None:
            found.add(trial.candidate)
    return len(found)


def trial_s(trials: Sequence[SearchTrial]) -> float:
    """The mean duration of the trials; 0 before the first."""
    return fmean(trial.wall_s for trial in trials) if trials else 0.0


def _several(count: int) -> str:
    return f"{count} trial" if count == 1 else f"{count} trials"
