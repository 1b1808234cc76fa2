"""What `verify` compares: a patch that was not written yet, one that was, or another script."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path

from autotune.api import apply, diagnose
from autotune.collect import artefacts
from autotune.errors import UsageError
from autotune.model.finding import Gain
from autotune.model.patch import PatchChange
from autotune.patch import journal as journals
from autotune.patch.file import NAME, loads
from autotune.report.gains import basis
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
    newest patch that was, if it holds all that is selected; `against` says which, and `beside` names a written one that
    is passed over. Raises UsageError when there is neither.
    """
    journal = next(reversed(_current(root)), None)
    if journal is None:
        return patched(words, options, cwd)
    if _is_all(journal, words, options, root, cwd):
        return _written(words, journal, root)
    compared, run = patched(words, options, cwd)
    beside = f"patch {journal.number} is written: --patch {journal.number} measures that one"
    return replace(compared, beside=beside), run


def named(words: tuple[str, ...], options: apply.Options, root: Path, cwd: Path) -> tuple[Sides, str]:
    """The patch of a run or a file, or by its number one that is written. Raises UsageError for none of them."""
    if not options.name.isdecimal() or (cwd / options.name).exists():
        return patched(words, options, cwd)
    where = f"--patch {options.name}"
    if options.select or options.allow:
        raise UsageError(
            "an applied patch is measured as a whole", where=where, to_do="Leave --select and --allow out."
        )
    current = {one.number: one for one in _current(root)}
    journal = current.get(int(options.name))
    if journal is None:
        listed = ", ".join(map(str, current))
        raise UsageError(
            "no applied patch has this number and unchanged files",
            where=where,
            to_do=f"There is: {listed}." if listed else "`autotune apply` writes one.",
        )
    return _written(words, journal, root)


def patched(words: tuple[str, ...], options: apply.Options, cwd: Path) -> tuple[Sides, str]:
    """A patch file that was not written yet, and the run that it is of. Raises UsageError when it is stale."""
    planned = apply.plan(options, cwd=cwd)
    if planned.doubt:
        raise UsageError(
            planned.doubt,
            where=options.name,
            to_do=f"Review it: `autotune apply --diff {shlex.quote(options.name)}`. Apply it, and verify measures it.",
        )
    run = _run(planned.title)
    compared = sides.patched(words, planned.chosen, planned.files, f"{planned.title}, not applied yet")
    return replace(compared, predicted=predicted(planned.chosen, run, planned.root)), run


def run_of(number: int, cwd: Path) -> str:
    """The run that proposed written patch `number`; "" where none is known."""
    kept = apply.kept_patches(cwd)
    known = journals.journals(kept.folder) if kept is not None else ()
    return next((_run(one.title) for one in known if one.number == number), "")


def _current(root: Path) -> list[journals.Journal]:
    """The patches that are written and whose files are still as they left them, the oldest first."""
    kept = apply.kept_patches(root)
    return [one for one in journals.journals(kept.folder) if sides.is_current(one)] if kept is not None else []


def _is_all(journal: journals.Journal, words: tuple[str, ...], options: apply.Options, root: Path, cwd: Path) -> bool:
    """Whether a written patch has all that is selected, and nothing of the last run's patch is left to be written."""
    last = _patch(options.name, cwd)
    names = {name for change in _changes(root, journal, words) for name in (change.setting, *change.rules)}
    if not names.issuperset(options.select):
        return False
    is_plain = not (options.select or options.allow)
    if last is None or (is_plain and last.parent.name == _run(journal.title)):
        return True
    planned = apply.plan(options, cwd=cwd)
    return not planned.files and not planned.typed


def _patch(name: str, cwd: Path) -> Path | None:
    """The patch of a run; None without one."""
    try:
        file = artefacts.resolve(name, cwd) / NAME
    except UsageError:
        return None
    return file if file.is_file() else None


def _written(words: tuple[str, ...], journal: journals.Journal, root: Path) -> tuple[Sides, str]:
    """A patch that was written, and its run."""
    run = _run(journal.title)
    changes = _changes(root, journal, words)
    return replace(sides.written(words, journal, changes), predicted=predicted(changes, run, root)), run


def _run(title: str) -> str:
    """The run that a patch of this title is of; "" where it names none."""
    found = _TITLE.fullmatch(title)
    return found[1] if found else ""


def _changes(root: Path, journal: journals.Journal, words: Sequence[str]) -> tuple[PatchChange, ...]:
    """Those changes of a run's patch that its journal says were written, and those that the command has."""
    run = _run(journal.title)
    file = _folder(root, run) / NAME
    if not run or not file.is_file():
        return ()
    changes = loads(file.read_bytes(), str(file)).changes
    return tuple(
        change
        for change in changes
        if (change.setting, change.subject) in journal.changes or sides.is_typed(words, change)
    )


def predicted(changes: Iterable[PatchChange], run: str, root: Path) -> Gain | None:
    """What the diagnosis expects of these changes together, whatever else it proposed beside them.

    None where it does not know of one of them: what that brings comes on top of any bound of the others.
    """
    if not run or not _folder(root, run).is_dir():
        return None
    rules = {rule for change in changes for rule in change.rules}
    try:
        report = diagnose.load(str(_folder(root, run)), cwd=root)
    except UsageError:
        return None
    of = [one for one in report.recommendations if any(finding.rule.id in rules for finding in one.findings)]
    if any(one.gain is None for one in of):
        return None
    gain = of[0].gain if len(of) == 1 else diagnose.together([found for one in of for found in one.findings], report)
    return replace(gain, basis=basis(gain, report.step)) if gain is not None else None


def _folder(root: Path, run: str) -> Path:
    return root / ".autotune" / "runs" / run
