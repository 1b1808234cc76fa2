"""What `verify` compares: a patch that was not written yet, one that was, or another script."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable
from dataclasses import replace
from pathlib import Path

from autotune.api import apply, diagnose
from autotune.collect import artefacts
from autotune.errors import UsageError
from autotune.model.finding import Gain
from autotune.model.patch import PatchChange
from autotune.patch import journal as journals
from autotune.patch.file import NAME, loads
from autotune.report.gains import combined
from autotune.verify import sides
from autotune.verify.sides import Sides

_TITLE = re.compile(r"\d+ of \d+ changes of run (\S+)")
"""What `apply` calls a patch, which names the run that proposed it."""


def other(words: tuple[str, ...], script: str) -> tuple[Sides, str]:
    """Another script, which no run proposed."""
    return sides.other(words, script), ""


def of_last(words: tuple[str, ...], options: apply.Options, root: Path, cwd: Path) -> tuple[Sides, str]:
    """What was written of the last run's patch, where the files are still so; else what `options` would write of it.

    Options of their own (--select, --allow) ask for what is not written yet. Where nothing is to be written it is the
    newest patch that was; `against` says which. Raises UsageError when there is neither.
    """
    found = written(words, root)
    is_plain = options == apply.Options()
    try:
        if found is not None and is_plain and found[1] == artefacts.resolve("last", cwd).name:
            return found
        return patched(words, options, cwd)
    except UsageError:
        if found is None:
            raise
        return found


def patched(words: tuple[str, ...], options: apply.Options, cwd: Path) -> tuple[Sides, str]:
    """A patch file that was not written yet, and the run that it is of. Raises UsageError when it is stale."""
    planned = apply.plan(options, cwd=cwd)
    run = _run(planned.title)
    compared = sides.patched(words, planned.chosen, planned.files, planned.title)
    return replace(compared, predicted=_predicted(planned.chosen, run, planned.root)), run


def written(words: tuple[str, ...], root: Path) -> tuple[Sides, str] | None:
    """The newest patch that was written, and its run; None when no file is still as a patch left it."""
    kept = apply.kept_patches(root)
    found = [one for one in journals.journals(kept) if sides.is_current(one)] if kept is not None else []
    if not found:
        return None
    run = _run(found[-1].title)
    changes = _changes(root, run, found[-1].changes)
    return replace(sides.written(words, found[-1], changes), predicted=_predicted(changes, run, root)), run


def _run(title: str) -> str:
    """The run that a patch of this title is of; "" where it names none."""
    found = _TITLE.fullmatch(title)
    return found[1] if found else ""


def _changes(root: Path, run: str, written: Collection[journals.ChangeName]) -> tuple[PatchChange, ...]:
    """Those changes of a run's patch that a journal says were written."""
    file = _folder(root, run) / NAME
    if not run or not file.is_file():
        return ()
    changes = loads(file.read_bytes(), str(file)).changes
    return tuple(change for change in changes if (change.setting, change.subject) in written)


def _predicted(changes: Iterable[PatchChange], run: str, root: Path) -> Gain | None:
    """What the diagnosis expected of the changes together; a bound is no prediction."""
    if not run or not _folder(root, run).is_dir():
        return None
    rules = {rule for change in changes for rule in change.rules}
    try:
        report = diagnose.load(str(_folder(root, run)), cwd=root)
    except UsageError:
        return None
    of = [one for one in report.recommendations if any(finding.rule.id in rules for finding in one.findings)]
    gain = combined(of)
    return gain if gain is not None and gain.basis != "bound" else None


def _folder(root: Path, run: str) -> Path:
    return root / ".autotune" / "runs" / run
