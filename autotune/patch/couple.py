"""Changes that only hold together: what each of them needs, and what becomes of it when that is a person's to do."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from autotune.model.patch import PatchChange
from autotune.model.scanned import Call

PAIRS = (("loader.batch_size", "train.accumulation_steps"),)
"""Settings of which neither changes without the other, where one rule asks for both: the global batch holds."""

INTERVALS = ("checkpoint.interval_steps", "evaluation.interval_steps")
"""A Trainer that loads the best model at the end saves at evaluations: these two are a pair then."""

BEST = "load_best_model_at_end"

WORKERS = "loader.num_workers"

OF_WORKERS = ("loader.prefetch_factor", "loader.persistent_workers", "loader.start_method")
"""Settings that a loader without workers refuses."""


def needs(change: PatchChange, changes: Sequence[PatchChange], calls: Sequence[Call]) -> tuple[str, ...]:
    """The settings among `changes` without whose change this one would not hold; `calls` are what it changes."""
    return tuple(other.setting for other in changes if other is not change and _needs(change, other, calls))


def coupled(changes: Sequence[PatchChange]) -> Iterator[PatchChange]:
    """The changes; one that needs a change that is by hand is by hand too."""
    manual = {change.setting for change in changes if change.by_hand}
    for change in changes:
        missing = [name for name in change.needs if name in manual]
        if change.edits and missing:
            why = f"only together with {', '.join(missing)}, which has to be changed by hand"
            yield replace(change, edits=(), by_hand=f"{change.setting} = {change.new}: {why}")
        else:
            yield change


def _needs(change: PatchChange, other: PatchChange, calls: Sequence[Call]) -> bool:
    both = (change.setting, other.setting)
    if any(set(both) == set(pair) for pair in PAIRS):
        return bool(set(change.rules) & set(other.rules))
    if set(both) == set(INTERVALS):
        given = [call.arguments[BEST] for call in calls if BEST in call.arguments]
        return any(one.value is not False for one in given)
    without = other.setting == WORKERS and other.subject == change.subject and not other.old
    return without and change.setting in OF_WORKERS
