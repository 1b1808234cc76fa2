"""From a Report and the files behind its command to the patch file of its run."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from msgspec.structs import replace

from autotune import patch, reading
from autotune.catalogue.dialects import Version
from autotune.collect import artefacts
from autotune.diagnose import construction, patch_diff
from autotune.errors import UsageError
from autotune.model.evidence import Location
from autotune.model.finding import Finding, Recommendation, SettingChange
from autotune.model.patch import Edit, Patch, PatchChange
from autotune.model.report import Report
from autotune.model.scanned import TYPED, Bundle
from autotune.patch.file import NAME, dumps, loads
from autotune.patch.journal import sha256
from autotune.patch.notebook_text import located, text
from autotune.patch.plan import RequestedChange
from autotune.patch.resolve import line_of, resolve
from autotune.report.gains import basis, format_interval


def write(
    report: Report, bundle: Bundle | None, versions: Mapping[str, Version], target: construction.PatchTarget
) -> str:
    """Plan the changes that `report` recommends and write them as patch.yaml: its path, "" without any.

    What the script's own libraries refuse is a person's to do, with their words for why.
    """
    requested = [one for each in report.recommendations for one in _requests(each, report)]
    if not requested:
        return ""
    planned = patch.plan(requested, bundle, lambda name: Path(name).read_bytes(), versions)
    changes = patch.with_dependencies(construction.check_construction(planned, report.run.python, target))
    # The command as the run knows it: without what may be a secret.
    proposed = Patch(
        str(target.root), target.run.name, report.run.command, tuple(relative_to_root(changes, target.root))
    )
    artefacts.write_patch(target.run / NAME, dumps(proposed))
    patch_diff.write(proposed, target.run)
    return str(target.run / NAME)


def _requests(recommendation: Recommendation, report: Report) -> Iterator[RequestedChange]:
    rules = tuple(finding.rule.id for finding in recommendation.findings)
    gain = recommendation.gain
    words = f"{format_interval(gain)}, {basis(gain, report.step)}" if gain is not None else ""
    for change in recommendation.changes:
        subject = next(
            (one.subject for one in recommendation.findings if change in one.changes), recommendation.first.subject
        )
        yield RequestedChange(change, subject, report.evidence.setting(subject, change.setting), rules, words)


def patch_file(run: Path) -> str:
    """The patch file of a stored run; "" when it has none."""
    return str(run / NAME) if (run / NAME).is_file() else ""


def locate_edits(report: Report) -> Report:
    """The report, in which each change names the place that the patch edits, and a recommendation that it cannot write
    why."""
    try:
        proposed = loads(reading.read(Path(report.patch)), report.patch) if report.patch else None
    except (OSError, UsageError):  # `apply` reports this error
        proposed = None
    if proposed is None:
        return report
    places = {(one.subject, one.setting): _edit_location(one, Path(proposed.root)) for one in proposed.changes}
    by_hand = {(one.subject, one.setting): one.by_hand for one in proposed.changes if one.by_hand}

    def at(change: SettingChange, subject: str) -> SettingChange:
        place = places.get((subject, change.setting))
        if place is None or (change.location is not None and _is_same_place(place, change.location)):
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


def _edit_location(change: PatchChange, root: Path) -> Location | None:
    """Where a change is written: its first edit. None without one, and in a file that changed since."""
    edit = next(iter(change.edits), None)
    if edit is None or edit.file == TYPED:
        return Location(TYPED, 1, key=edit.key) if edit is not None else None
    try:
        stored = reading.read(root / edit.file)
        data = text(edit.file, stored)
    except (OSError, UsageError):
        return None
    splice = resolve(data, edit) if sha256(data) == edit.sha256 else None
    if splice is None:
        return None
    above = splice.text[: len(splice.text) - len(splice.text.lstrip("\r\n"))]
    line = line_of(data, splice.span.start) + above.count("\n")
    return located(Location(str(root / edit.file), line, key=edit.key, span=splice.span), stored)


def _is_same_place(place: Location, known: Location) -> bool:
    """Whether `known`, a place with its column or key, is the place of the edit."""
    is_file = os.path.realpath(known.file) == os.path.realpath(place.file) or place.file == known.file
    return is_file and (known.is_missing or known.line == place.line)


def relative_to_root(changes: Iterable[PatchChange], root: Path) -> Iterator[PatchChange]:
    """The changes with the files below `root` named from there."""
    for change in changes:
        edits = tuple(_relative_edit(edit, root) for edit in change.edits)
        yield replace(change, edits=edits, by_hand=change.by_hand.replace(f"{root}/", ""))


def _relative_edit(edit: Edit, root: Path) -> Edit:
    path = Path(edit.file)
    return replace(edit, file=str(path.relative_to(root))) if path.is_relative_to(root) else edit
