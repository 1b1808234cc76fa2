"""From a Report and the files behind its command to the patch file of its run."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path

from msgspec import Struct
from msgspec.structs import replace

from autotune import patch, reading
from autotune.catalogue.dialects import Version, dialects
from autotune.collect import artefacts, construct
from autotune.errors import UsageError
from autotune.model.evidence import Location, Value
from autotune.model.finding import Finding, Recommendation, SettingChange
from autotune.model.patch import Edit, Patch, PatchChange
from autotune.model.report import Report
from autotune.model.scanned import TYPED, Bundle, ConsumerCall
from autotune.patch.dependencies import are_partners
from autotune.patch.file import NAME, dumps, loads
from autotune.patch.journal import sha256
from autotune.patch.plan import PlannedChange, RequestedChange
from autotune.patch.resolve import line_of, resolve
from autotune.report.gains import basis, format_interval

CONSTRUCTION_LIMIT_S = 90.0
"""Importing transformers takes a quarter of this on a slow disk."""


class PatchTarget(Struct, frozen=True):
    """Where the command ran (`cwd`, `environ`), and where its patch belongs: the project's `root`, the folder `run`."""

    root: Path
    run: Path
    cwd: Path
    environ: Mapping[str, str]


def write(report: Report, bundle: Bundle | None, versions: Mapping[str, Version], place: PatchTarget) -> str:
    """Plan the changes that `report` recommends and write them as patch.yaml: its path, "" without any.

    What the script's own libraries refuse is a person's to do, with their words for why.
    """
    wanted = [one for each in report.recommendations for one in _wanted(each, report)]
    if not wanted:
        return ""
    planned = patch.plan(wanted, bundle, lambda name: Path(name).read_bytes(), versions)
    changes = patch.with_dependencies(constructible(planned, report.run.python, place))
    # The command as the run knows it: without what may be a secret.
    made = Patch(str(place.root), place.run.name, report.run.command, tuple(relative(changes, place.root)))
    artefacts.write_patch(place.run / NAME, dumps(made))
    return str(place.run / NAME)


def written(run: Path) -> str:
    """The patch file of a stored run; "" when it has none."""
    return str(run / NAME) if (run / NAME).is_file() else ""


def locate_edits(report: Report) -> Report:
    """The report, in which each change names the place that the patch edits, and a recommendation that it cannot write
    why."""
    try:
        made = loads(reading.read(Path(report.patch)), report.patch) if report.patch else None
    except (OSError, UsageError):  # `apply` reports this error
        made = None
    if made is None:
        return report
    places = {(one.subject, one.setting): _written_at(one, Path(made.root)) for one in made.changes}
    by_hand = {(one.subject, one.setting): one.by_hand for one in made.changes if one.by_hand}

    def at(change: SettingChange, subject: str) -> SettingChange:
        place = places.get((subject, change.setting))
        if place is None or (change.location is not None and _is_same(place, change.location)):
            return change
        return replace(change, location=place)

    def of(finding: Finding) -> Finding:
        return replace(finding, changes=tuple(at(one, finding.subject) for one in finding.changes))

    def whole(one: Recommendation) -> Recommendation:
        owners = {change: found.subject for found in one.findings for change in found.changes}
        owned = [(change, owners.get(change, one.first.subject)) for change in one.changes]
        why = [by_hand.get((subject, change.setting), "") for change, subject in owned]
        changes = tuple(at(change, subject) for change, subject in owned)
        return replace(
            one, findings=tuple(map(of, one.findings)), changes=changes, by_hand=tuple(why) if all(why) else ()
        )

    evaluation = replace(report.evaluation, findings=tuple(map(of, report.evaluation.findings)))
    return replace(report, evaluation=evaluation, recommendations=tuple(map(whole, report.recommendations)))


def _written_at(change: PatchChange, root: Path) -> Location | None:
    """Where a change is written: its first edit. None without one, and in a file that changed since."""
    edit = next(iter(change.edits), None)
    if edit is None or edit.file == TYPED:
        return Location(TYPED, 1, key=edit.key) if edit is not None else None
    try:
        data = reading.read(root / edit.file)
    except OSError:
        return None
    splice = resolve(data, edit) if sha256(data) == edit.sha256 else None
    if splice is None:
        return None
    above = splice.text[: len(splice.text) - len(splice.text.lstrip("\r\n"))]
    line = line_of(data, splice.span.start) + above.count("\n")
    return Location(str(root / edit.file), line, key=edit.key, span=splice.span)


def _is_same(place: Location, known: Location) -> bool:
    """Whether `known`, a place with its column or key, is the place of the edit."""
    is_file = os.path.realpath(known.file) == os.path.realpath(place.file) or place.file == known.file
    return is_file and (known.is_missing or known.line == place.line)


def constructible(planned: Sequence[PlannedChange], python: str, place: PatchTarget) -> tuple[PatchChange, ...]:
    """The changes; those that the libraries of `python` refuse, alone or beside the others, are by hand."""
    edited = [each for each in planned if each.change.edits]
    alone = [(each, *_needed(each, edited)) for each in edited]
    answers = _refusals([*alone, *_by_consumer(edited)], python, place)
    refused = {id(group[0]): why for group, why in zip(alone, answers, strict=False) if why}
    left = [each for each in edited if id(each) not in refused]
    together = _by_consumer(left)
    # Without those that are refused, the others are another object.
    whole = _refusals(together, python, place) if refused else answers[len(alone) :]
    for group, why in zip(together, whole, strict=True):
        refused |= _refused_together(group, python, place) if why else {}
    return tuple(_refused(each.change, refused.get(id(each), "")) for each in planned)


def _refused_together(group: Sequence[PlannedChange], python: str, place: PatchTarget) -> dict[int, str]:
    """Why changes of one consumer are left out that it does not take together: the first, which gain more, stay."""
    kept: list[PlannedChange] = []
    refused = {}
    for draft in group:
        (why,) = _refusals([(*kept, draft)], python, place)
        if why:
            others = ", ".join(f"{other.change.setting} = {other.change.new}" for other in kept)
            refused[id(draft)] = f"conflicts with {others}: {why}" if kept else why
        else:
            kept.append(draft)
    return refused


def _needed(draft: PlannedChange, edited: Sequence[PlannedChange]) -> Iterator[PlannedChange]:
    """The drafts that this one needs: of one loader, or of one rule."""
    named = (other for other in edited if other is not draft and other.change.setting in draft.change.needs)
    return (other for other in named if are_partners(draft.change, other.change))


def _by_consumer(edited: Sequence[PlannedChange]) -> list[tuple[PlannedChange, ...]]:
    """All changes of each consumer."""
    consumers = dict.fromkeys(map(_consumer, edited))
    return [tuple(each for each in edited if _consumer(each) == consumer) for consumer in consumers]


def _refusals(groups: Sequence[Sequence[PlannedChange]], python: str, place: PatchTarget) -> list[str]:
    """Why each group is refused; "" where it is taken, or makes nothing that can be constructed."""
    targets = [_target(group) for group in groups]
    known = [target for target in targets if target is not None]
    answers = iter(construct.check(python, known, cwd=place.cwd, limit_s=CONSTRUCTION_LIMIT_S, environ=place.environ))
    return ["" if target is None else next(answers).refusal for target in targets]


def _consumer(draft: PlannedChange) -> tuple[str, str, str]:
    call = draft.calls[0]
    return call.dialect, call.subject, call.name


def _target(group: Sequence[PlannedChange]) -> construct.Target | None:
    """The object that a group's consumer makes with all its arguments; a config names none: it is the dialect's own."""
    calls = tuple(map(_named, group[0].calls))
    arguments: dict[str, Value | None] = {}
    for each in group:
        arguments |= each.arguments if _consumer(each) == _consumer(group[0]) else {}
    return construct.target(calls, arguments)


def _named(call: ConsumerCall) -> ConsumerCall:
    return replace(call, name=call.name or str(dialects()[call.dialect].get("call", "")))


def _refused(change: PatchChange, refusal: str) -> PatchChange:
    if not refusal:
        return change
    return replace(change, edits=(), by_hand=f"{change.setting} = {change.new}: {refusal}")


def _wanted(recommendation: Recommendation, report: Report) -> Iterator[RequestedChange]:
    rules = tuple(finding.rule.id for finding in recommendation.findings)
    gain = recommendation.gain
    words = f"{format_interval(gain)}, {basis(gain, report.step)}" if gain is not None else ""
    for change in recommendation.changes:
        subject = next(
            (one.subject for one in recommendation.findings if change in one.changes), recommendation.first.subject
        )
        yield RequestedChange(change, subject, report.evidence.setting(subject, change.setting), rules, words)


def relative(changes: Iterable[PatchChange], root: Path) -> Iterator[PatchChange]:
    """The changes with the files below `root` named from there."""
    for change in changes:
        edits = tuple(_below(edit, root) for edit in change.edits)
        yield replace(change, edits=edits, by_hand=change.by_hand.replace(f"{root}/", ""))


def _below(edit: Edit, root: Path) -> Edit:
    path = Path(edit.file)
    return replace(edit, file=str(path.relative_to(root))) if path.is_relative_to(root) else edit
