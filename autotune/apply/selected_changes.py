"""Which changes of a patch are written, and why the others are not."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from autotune.errors import UsageError
from autotune.model.finding import UNCHANGED, needs_decision
from autotune.model.patch import PatchChange
from autotune.model.rule import Effect
from autotune.patch.dependencies import missing_dependencies
from autotune.patch.journal import ChangeName

LeftOut = tuple[PatchChange, str]
"""A change that is not written, and the reason."""


def choose(
    changes: Sequence[PatchChange],
    select: Sequence[str],
    allow: frozenset[Effect],
    written: Mapping[ChangeName, int],
) -> tuple[list[PatchChange], list[LeftOut]]:
    """The changes to write, and the others with the reason; `written` are those that an applied patch has already.

    `select` are ids of rules or names of settings, empty for all. Raises UsageError for a name that matches no change.
    """
    _refuse_unknown(changes, select)
    reasons = [_why_left_out(change, changes, select, allow, written) for change in changes]
    has_value = [not change.edits and not change.by_hand for change in changes]
    can_be_made = [not reason or value for reason, value in zip(reasons, has_value, strict=True)]
    lacks = missing_dependencies(changes, can_be_made)
    reasons = [reason or _depends_on(missing) for reason, missing in zip(reasons, lacks, strict=True)]
    pairs = list(zip(changes, reasons, strict=True))
    return [change for change, reason in pairs if not reason], [(change, reason) for change, reason in pairs if reason]


def _refuse_unknown(changes: Sequence[PatchChange], select: Sequence[str]) -> None:
    names = {name for change in changes for name in (change.setting, *change.rules)}
    if unknown := [name for name in select if name not in names]:
        listed = ", ".join(sorted(names)) or "no changes"
        raise UsageError(f"no change of this patch matches {', '.join(unknown)}", to_do=f"There are: {listed}.")


def _why_left_out(
    change: PatchChange,
    changes: Sequence[PatchChange],
    select: Sequence[str],
    allow: frozenset[Effect],
    written: Mapping[ChangeName, int],
) -> str:
    """Why a change is not written, "" where it is."""
    is_selected = not {change.setting, *change.rules}.isdisjoint(select)
    if select and not is_selected:
        return "not selected"
    if not change.edits:
        number = written.get((change.setting, change.subject))
        by = f": patch {number} wrote it" if number is not None else ""
        return change.by_hand or f"it has this value already{by}"
    # The report has all changes of a recommendation in one group, so that they need one decision.
    undecided = [one for one in changes if one.rules == change.rules and _is_undecided(one, allow)]
    if is_selected or not undecided:
        return ""
    if change not in undecided:
        return _depends_on([undecided[0].setting])
    if change.effect in UNCHANGED or change.effect in allow:
        return f"it has another cost: --select {change.setting} writes it"
    return f"it is {change.effect.value}: --allow {change.effect.value} writes it too"


def _is_undecided(change: PatchChange, allow: frozenset[Effect]) -> bool:
    """Whether a person still has to decide on a change. --allow decides on effects, only --select on other costs."""
    effect = Effect.EXACT if change.effect in allow else change.effect
    return needs_decision(change.setting, effect)


def _depends_on(missing: Sequence[str]) -> str:
    return f"it depends on {', '.join(missing)}, which is not written" if missing else ""
