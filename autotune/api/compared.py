"""What `verify` compares: a patch that was not written yet, one that was, or another script."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

from autotune.api import apply, diagnose
from autotune.errors import UsageError
from autotune.model.finding import Gain
from autotune.model.patch import PatchChange
from autotune.patch import journal as journals
from autotune.patch.file import NAME, loads
from autotune.report.gains import combined
from autotune.verify import sides
from autotune.verify.sides import Sides

_TITLE = re.compile(r"(\d+) of \d+ changes of run (\S+)")
"""What `apply` calls a patch: the number of its changes that are made, and the run that proposed them."""


def other(words: tuple[str, ...], script: str) -> tuple[Sides, str]:
    """Another script, which no run proposed."""
    return sides.other(words, script), ""


def patched(words: tuple[str, ...], options: apply.Options, cwd: Path) -> tuple[Sides, str]:
    """A patch file that was not written yet, and the run that it is of. Raises UsageError when it is stale."""
    planned = apply.plan(options, cwd=cwd)
    _, run = _told(planned.title)
    compared = sides.patched(words, planned.chosen, planned.files, planned.title)
    return replace(compared, predicted=_predicted(planned.chosen, run, planned.root)), run


def written(words: tuple[str, ...], root: Path) -> tuple[Sides, str] | None:
    """The newest patch that was written, and its run; None when no file is still as a patch left it."""
    kept = apply.kept_patches(root)
    found = [one for one in journals.journals(kept) if sides.is_current(one)] if kept is not None else []
    if not found:
        return None
    num, run = _told(found[-1].title)
    changes = _changes(root, run, num)
    return replace(sides.written(words, found[-1], changes), predicted=_predicted(changes, run, root)), run


def _told(title: str) -> tuple[int, str]:
    found = _TITLE.fullmatch(title)
    return (int(found[1]), found[2]) if found else (0, "")


def _changes(root: Path, run: str, num: int) -> tuple[PatchChange, ...]:
    """The `num` changes of a run's patch that were written: the safe ones when there are as many, else all."""
    file = _folder(root, run) / NAME
    if not run or not file.is_file():
        return ()
    edited = [change for change in loads(file.read_bytes(), str(file)).changes if change.edits]
    safe = [change for change in edited if change.effect in apply.SAFE]
    return tuple(safe if len(safe) == num else edited)


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
