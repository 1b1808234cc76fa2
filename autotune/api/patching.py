"""From a Report and the files behind its command to the patch file of its run."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path

from autotune import patch
from autotune.catalogue.dialects import Version
from autotune.collect import artefacts
from autotune.model.finding import Recommendation
from autotune.model.patch import Edit, Patch, PatchChange
from autotune.model.report import Report
from autotune.model.scanned import Bundle
from autotune.patch.file import NAME, dumps
from autotune.patch.plan import Wanted
from autotune.report.gains import basis


def write(report: Report, bundle: Bundle | None, versions: Mapping[str, Version], root: Path, run: Path) -> str:
    """Plan the changes that `report` recommends and write them as patch.yaml into `run`: its path, "" without any."""
    wanted = [one for each in report.recommendations for one in _wanted(each, report)]
    if not wanted:
        return ""
    changes = patch.plan(wanted, bundle, lambda name: Path(name).read_bytes(), versions)
    # The command as the run knows it: without what may be a secret.
    made = Patch(str(root), run.name, report.run.command, tuple(_relative(change, root) for change in changes))
    artefacts.write_text(run / NAME, dumps(made))
    return str(run / NAME)


def written(run: Path) -> str:
    """The patch file of a stored run; "" when it has none."""
    return str(run / NAME) if (run / NAME).is_file() else ""


def _wanted(recommendation: Recommendation, report: Report) -> Iterator[Wanted]:
    rules = tuple(finding.rule.id for finding in recommendation.findings)
    gain = recommendation.gain
    words = (
        f"{gain.speedup:.2f}x ({gain.low:.2f} to {gain.high:.2f}), {basis(gain, report.step)}"
        if gain is not None
        else ""
    )
    for change in recommendation.changes:
        subject = next(
            (one.subject for one in recommendation.findings if change in one.changes), recommendation.first.subject
        )
        yield Wanted(change, subject, report.evidence.setting(subject, change.setting), rules, words)


def _relative(change: PatchChange, root: Path) -> PatchChange:
    return replace(change, edits=tuple(_below(edit, root) for edit in change.edits))


def _below(edit: Edit, root: Path) -> Edit:
    path = Path(edit.file)
    return replace(edit, file=str(path.relative_to(root))) if path.is_relative_to(root) else edit
