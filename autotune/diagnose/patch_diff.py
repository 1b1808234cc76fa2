"""What `apply` would write unasked, as a diff that is kept with the run: files change later, the report does not."""

from __future__ import annotations

from pathlib import Path

from autotune import reading
from autotune.collect import artefacts
from autotune.errors import UsageError
from autotune.model.finding import needs_decision
from autotune.model.patch import Edit, Patch
from autotune.model.scanned import TYPED
from autotune.patch.dependencies import missing_dependencies
from autotune.patch.resolve import apply_edits
from autotune.report.diff import unified

NAME = "apply.diff"


def write(proposed: Patch, run: Path) -> None:
    """Keep it in the run folder; nothing where nothing would be written, or a file cannot be read.

    Only changed lines are kept: those around them may hold anything, and a report is passed on.
    """
    text = _diff(proposed)
    if text:
        artefacts.write_text(run / NAME, text)


def stored(run: Path) -> str:
    """The diff of a stored run; "" when it has none."""
    try:
        return reading.read(run / NAME).decode("utf-8", "replace")
    except OSError:
        return ""


def _diff(proposed: Patch) -> str:
    root = Path(proposed.root)
    can_be_made = [bool(one.edits) and not needs_decision(one.setting, one.effect) for one in proposed.changes]
    lacks = missing_dependencies(proposed.changes, can_be_made)
    chosen = [
        one for one, can, missing in zip(proposed.changes, can_be_made, lacks, strict=True) if can and not missing
    ]
    by_file: dict[str, list[Edit]] = {}
    for edit in dict.fromkeys(edit for one in chosen for edit in one.edits if edit.file != TYPED):
        by_file.setdefault(edit.file, []).append(edit)
    try:
        before = {name: reading.read(root / name) for name in by_file}
        files = [(root / name, data, apply_edits(data, by_file[name])) for name, data in before.items()]
        return "".join(unified(files, root, context=0))
    except (OSError, UsageError, ValueError):  # `apply` says why
        return ""
