"""Trials of other machines, as they would be on this one: speeds compare only by what each does of the user's own."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from statistics import fmean

from autotune.model.tuned import Space, Trial

Told = tuple[str, Trial]
"""A trial, and the machine that made it."""


def as_here(space: Space, told: Sequence[Told], here: str) -> Iterator[Trial]:
    """The trials of the machine `here`, and those of others at the speed that they would have on it.

    That is their ratio to the user's own settings on the machine that made them. Of one that has not measured these no
    speed counts, and of no other before this one has; what failed or ran out of memory does. What the others measured
    of the user's own is no trial.
    """
    own = {machine: _own_speed(space, told, machine) for machine, _ in told}
    for machine, trial in told:
        mine, theirs = own.get(here), own[machine]
        if machine == here:
            yield trial
        elif trial.candidate == space.current:
            continue
        elif trial.samples_per_s is None:
            yield trial
        elif mine and theirs:
            yield _scaled(trial, mine / theirs)


def _own_speed(space: Space, told: Sequence[Told], machine: str) -> float | None:
    trials = [trial for of, trial in told if of == machine and trial.candidate == space.current]
    return fmean(found) if (found := [trial.samples_per_s for trial in trials if trial.samples_per_s]) else None


def _scaled(trial: Trial, factor: float) -> Trial:
    speed, step_ms = trial.samples_per_s, trial.step_ms
    return replace(trial, samples_per_s=speed and speed * factor, step_ms=step_ms and step_ms / factor)
