"""Changes that the script's own libraries refuse when they construct a changed object: a person's to make."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from msgspec import Struct
from msgspec.structs import replace

from autotune.catalogue.dialects import dialects
from autotune.collect import construct
from autotune.model.evidence import Value
from autotune.model.patch import PatchChange
from autotune.model.scanned import ConsumerCall
from autotune.patch.dependencies import are_partners
from autotune.patch.plan import PlannedChange

CONSTRUCTION_LIMIT_S = 90.0
"""Importing transformers takes a quarter of this on a slow disk."""


class PatchTarget(Struct, frozen=True):
    """Where the command ran (`cwd`, `environ`), and where its patch belongs: the project's `root`, the folder `run`."""

    root: Path
    run: Path
    cwd: Path
    environ: Mapping[str, str]


def check_construction(planned: Sequence[PlannedChange], python: str, target: PatchTarget) -> tuple[PatchChange, ...]:
    """The changes; those that the libraries of `python` refuse, alone or beside the others, are by hand."""
    edited = [each for each in planned if each.change.edits]
    alone = [(each, *_dependencies(each, edited)) for each in edited]
    answers = _refusals([*alone, *_by_consumer(edited)], python, target)
    refused = {id(group[0]): why for group, why in zip(alone, answers, strict=False) if why}
    together = _by_consumer([each for each in edited if id(each) not in refused])
    # Without those that are refused, the others are another object.
    whole = _refusals(together, python, target) if refused else answers[len(alone) :]
    for group, why in zip(together, whole, strict=True):
        refused |= _refused_beside_others(group, python, target) if why else {}
    return tuple(_with_refusal(each.change, refused.get(id(each), "")) for each in planned)


def _refused_beside_others(group: Sequence[PlannedChange], python: str, target: PatchTarget) -> dict[int, str]:
    """Why changes of one consumer are left out that it does not take together: the first, which gain more, stay."""
    accepted: list[PlannedChange] = []
    refused = {}
    for draft in group:
        (why,) = _refusals([(*accepted, draft)], python, target)
        if why:
            others = ", ".join(f"{other.change.setting} = {other.change.new}" for other in accepted)
            refused[id(draft)] = f"conflicts with {others}: {why}" if accepted else why
        else:
            accepted.append(draft)
    return refused


def _dependencies(draft: PlannedChange, edited: Sequence[PlannedChange]) -> Iterator[PlannedChange]:
    """The drafts that this one needs: of one loader, or of one rule."""
    named = (other for other in edited if other is not draft and other.change.setting in draft.change.needs)
    return (other for other in named if are_partners(draft.change, other.change))


def _by_consumer(edited: Sequence[PlannedChange]) -> list[tuple[PlannedChange, ...]]:
    """All changes of each consumer."""
    consumers = dict.fromkeys(map(_consumer, edited))
    return [tuple(each for each in edited if _consumer(each) == consumer) for consumer in consumers]


def _refusals(groups: Sequence[Sequence[PlannedChange]], python: str, target: PatchTarget) -> list[str]:
    """Why each group is refused; "" where it is taken, or makes nothing that can be constructed."""
    targets = [_target(group) for group in groups]
    known = [each for each in targets if each is not None]
    answers = iter(construct.check(python, known, cwd=target.cwd, limit_s=CONSTRUCTION_LIMIT_S, environ=target.environ))
    return ["" if each is None else next(answers).refusal for each in targets]


def _consumer(draft: PlannedChange) -> tuple[str, str, str]:
    call = draft.calls[0]
    return call.dialect, call.subject, call.name


def _target(group: Sequence[PlannedChange]) -> construct.Target | None:
    """The object that a group's consumer makes with all its arguments; a config names none: it is the dialect's own."""
    calls = tuple(map(_with_dialect_name, group[0].calls))
    arguments: dict[str, Value | None] = {}
    for each in group:
        arguments |= each.arguments if _consumer(each) == _consumer(group[0]) else {}
    return construct.target(calls, arguments)


def _with_dialect_name(call: ConsumerCall) -> ConsumerCall:
    return replace(call, name=call.name or str(dialects()[call.dialect].get("call", "")))


def _with_refusal(change: PatchChange, refusal: str) -> PatchChange:
    if not refusal:
        return change
    return replace(change, edits=(), by_hand=f"{change.setting} = {change.new}: {refusal}")
