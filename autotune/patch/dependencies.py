"""Changes that only hold together: what each of them needs, and what becomes of it when that is a person's to do."""

from __future__ import annotations

from collections.abc import Iterator, Sequence, Set

from msgspec.structs import replace

from autotune.model.patch import PatchChange
from autotune.model.scanned import ConsumerCall

PAIRS = (("loader.batch_size", "train.accumulation_steps"),)
"""Settings of which neither changes without the other, where one rule asks for both: the global batch holds."""

INTERVALS = ("checkpoint.interval_steps", "evaluation.interval_steps")
"""A Trainer that loads the best model at the end saves at evaluations: these two are a pair then."""

BEST = "load_best_model_at_end"

WORKERS = "loader.num_workers"

OF_WORKERS = ("loader.prefetch_factor", "loader.persistent_workers", "loader.start_method")
"""Settings that a loader without workers refuses."""


def dependencies(change: PatchChange, changes: Sequence[PatchChange], calls: Sequence[ConsumerCall]) -> tuple[str, ...]:
    """The settings among `changes` without whose change this one would not hold; `calls` are what it changes.

    They are what its rule asks for with it (`change.needs`), also where that cannot be changed, and those without which
    libraries refuse it.
    """
    known = {one.setting for one in changes}
    beyond = (name for name in change.needs if name not in known)
    return (*beyond, *(other.setting for other in changes if other is not change and _needs(change, other, calls)))


def missing_dependencies(changes: Sequence[PatchChange], is_made: Sequence[bool]) -> list[tuple[str, ...]]:
    """The settings that keep each change that is to be made from it: a partner is not made, or lacks one itself."""
    made = {at for at, wanted in enumerate(is_made) if wanted}
    found: dict[int, tuple[str, ...]] = {}
    while True:
        lacks = {at: tuple(name for name in changes[at].needs if not _is_met(changes, at, name, made)) for at in made}
        found |= {at: names for at, names in lacks.items() if names}
        if not any(lacks.values()):
            return [found.get(at, ()) for at in range(len(changes))]
        made -= found.keys()


def with_dependencies(changes: Sequence[PatchChange]) -> Iterator[PatchChange]:
    """The changes; one that needs a change that is by hand is by hand too."""
    for change, missing in zip(
        changes, missing_dependencies(changes, [not one.by_hand for one in changes]), strict=True
    ):
        if change.edits and missing:
            why = f"it depends on {', '.join(missing)}, which has to be changed by hand"
            yield replace(change, edits=(), by_hand=f"{change.setting} = {change.new}: {why}")
        else:
            yield change


def _is_met(changes: Sequence[PatchChange], at: int, name: str, made: Set[int]) -> bool:
    """Whether the partners of that name of a change are made, of which there has to be one."""
    named = [other for other, change in enumerate(changes) if change.setting == name and other != at]
    partners = [other for other in named if are_partners(changes[at], changes[other])]
    return bool(partners) and made >= set(partners)


def are_partners(one: PatchChange, other: PatchChange) -> bool:
    """Two changes of one kind (a loader) are of the same one; a loader's and the run's come from one rule."""
    kinds = {change.subject.split("#")[0] for change in (one, other)}
    return one.subject == other.subject if len(kinds) == 1 else bool(set(one.rules) & set(other.rules))


def is_pair(one: PatchChange, other: PatchChange) -> bool:
    """Whether two changes that one rule asks for are of settings of which neither changes without the other."""
    names = {one.setting, other.setting}
    return any(names == set(pair) for pair in PAIRS) and bool(set(one.rules) & set(other.rules))


def _needs(change: PatchChange, other: PatchChange, calls: Sequence[ConsumerCall]) -> bool:
    asked_together = other.setting in change.needs and are_partners(change, other)
    if asked_together or is_pair(change, other):
        return True
    if {change.setting, other.setting} == set(INTERVALS):
        given = [call.arguments[BEST] for call in calls if BEST in call.arguments]
        return any(one.value is not False for one in given)
    without = other.setting == WORKERS and other.subject == change.subject and not other.old
    return without and change.setting in OF_WORKERS
