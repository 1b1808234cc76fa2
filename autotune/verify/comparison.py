"""What `verify` compares: a patch that is not applied yet, an applied patch, or another script."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Sequence
from pathlib import Path

from msgspec.structs import replace

from autotune.apply import applied_patches, apply
from autotune.collect import artefacts
from autotune.diagnose import diagnose
from autotune.diagnose.build_report import together
from autotune.errors import UsageError
from autotune.model.finding import Gain
from autotune.model.patch import PatchChange
from autotune.patch import journal as journals
from autotune.patch.file import NAME, loads
from autotune.patch.journal import WRITTEN, Journal
from autotune.patch.present import is_present, present_files
from autotune.report.gains import basis
from autotune.verify import sides
from autotune.verify.sides import Sides


def other_script(words: tuple[str, ...], script: str) -> tuple[Sides, str]:
    """Another script, which no run proposed."""
    return sides.other(words, script), ""


def patch_of_last_run(words: tuple[str, ...], options: apply.ApplyOptions, root: Path, cwd: Path) -> tuple[Sides, str]:
    """The last run's patch: as it was applied, if it is in the files; else the changes that `options` would write.

    --select and --allow ask for changes that are not applied yet. If nothing is left to write, the newest applied patch
    is measured, provided that it holds all selected changes. `against` names the patch; `beside` an applied one that is
    not measured. Raises UsageError if there is no patch, or if lines that it wrote were edited since.
    """
    known, last = _applied(root), _patch(options.name, cwd)
    run = last.parent.name if last is not None and not (options.select or options.allow) else ""
    own = next((one for one in reversed(known) if run and applied_patches.run_of(one.title) == run), None)
    if own is not None and (edited := _edited(own)) is not None:
        return _rest(words, options, cwd, edited)
    journal = next(filter(is_present, reversed(known)), None)
    if journal is None:
        return patched(words, options, cwd)
    if (run and applied_patches.run_of(journal.title) == run) or _is_all(journal, words, options, root, cwd):
        return _written(words, journal, root)
    compared, of = patched(words, options, cwd)
    beside = f"patch {journal.number} is applied: --patch {journal.number} measures that one"
    return replace(compared, beside=beside), of


def _rest(words: tuple[str, ...], options: apply.ApplyOptions, cwd: Path, edited: UsageError) -> tuple[Sides, str]:
    """The changes still to write of a patch whose lines were edited. Raises `edited` if there are none."""
    try:
        return patched(words, options, cwd)
    except UsageError:
        raise edited from None


def patch_by_name(words: tuple[str, ...], options: apply.ApplyOptions, root: Path, cwd: Path) -> tuple[Sides, str]:
    """The patch of a run or a file, or an applied patch by its number. Raises UsageError for any other name."""
    if not options.name.isdecimal() or (cwd / options.name).exists():
        return patched(words, options, cwd)
    where = f"--patch {options.name}"
    if options.select or options.allow:
        raise UsageError(
            "an applied patch is measured as a whole", where=where, to_do="Leave --select and --allow out."
        )
    known = {one.number: one for one in _applied(root)}
    journal = known.get(int(options.name))
    if journal is not None and (edited := _edited(journal)) is not None:
        raise edited
    if journal is None or not is_present(journal):
        listed = ", ".join(str(number) for number, one in known.items() if is_present(one))
        raise UsageError(
            "no applied patch has this number and its lines in the files",
            where=where,
            to_do=f"There is: {listed}." if listed else "`autotune apply` writes one.",
        )
    return _written(words, journal, root)


def patched(words: tuple[str, ...], options: apply.ApplyOptions, cwd: Path) -> tuple[Sides, str]:
    """A patch file that is not applied yet, and its run. Raises UsageError when it is stale."""
    planned = apply.plan(options, cwd=cwd)
    if planned.doubt:
        raise UsageError(
            planned.doubt,
            where=options.name,
            to_do=f"Review it: `autotune apply --diff {shlex.quote(options.name)}`. Apply it, and verify measures it.",
        )
    run = applied_patches.run_of(planned.title)
    compared = sides.patched(words, planned.chosen, planned.files, f"{planned.title}, not applied yet")
    command = _apply_command(options) if planned.files else ""
    return replace(compared, predicted=predicted(planned.chosen, run, planned.root), apply_command=command), run


def _apply_command(options: apply.ApplyOptions) -> str:
    words = [word for name in options.select for word in ("--select", name)]
    words += [word for effect in sorted(options.allow) for word in ("--allow", effect.value)]
    named = [options.name] if options.name != apply.ApplyOptions().name else []
    return shlex.join(["autotune", "apply", *words, "--diff", *named])


def run_of(number: int, cwd: Path) -> str:
    """The run that proposed applied patch `number`; "" where none is known."""
    kept = applied_patches.patch_store(cwd)
    known = journals.journals(kept.folder) if kept is not None else ()
    return next((applied_patches.run_of(one.title) for one in known if one.number == number), "")


def _applied(root: Path) -> list[Journal]:
    """The applied patches, the oldest first."""
    kept = applied_patches.patch_store(root)
    return [one for one in journals.journals(kept.folder) if one.state == WRITTEN] if kept is not None else []


def _edited(journal: Journal) -> UsageError | None:
    """Why an applied patch cannot be measured: its lines were edited since. None where they were not."""
    try:
        present_files(journal)
    except UsageError as error:
        to_do = f"{error.to_do} verify needs that line as the patch wrote it, or as it was before."
        return UsageError(error.what, where=error.where, to_do=to_do)
    return None


def _is_all(journal: Journal, words: tuple[str, ...], options: apply.ApplyOptions, root: Path, cwd: Path) -> bool:
    """Whether an applied patch has all selected changes, and nothing of the last run's patch is left to write."""
    last = _patch(options.name, cwd)
    names = {name for change in _changes(root, journal, words) for name in (change.setting, *change.rules)}
    if not names.issuperset(options.select):
        return False
    if last is None:
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


def _written(words: tuple[str, ...], journal: Journal, root: Path) -> tuple[Sides, str]:
    """An applied patch, and its run."""
    run = applied_patches.run_of(journal.title)
    changes = _changes(root, journal, words)
    compared = sides.written(words, journal.number, present_files(journal), changes)
    undo = f"autotune undo {journal.number}"
    return replace(compared, predicted=predicted(changes, run, root), undo_command=undo), run


def _changes(root: Path, journal: Journal, words: Sequence[str]) -> tuple[PatchChange, ...]:
    """The changes of a run's patch that its journal lists, and those that are on the command line."""
    run = applied_patches.run_of(journal.title)
    file = folder(root, run) / NAME
    if not run or not file.is_file():
        return ()
    changes = loads(file.read_bytes(), str(file)).changes
    return tuple(
        change
        for change in changes
        if (change.setting, change.subject) in journal.changes or sides.is_typed(words, change)
    )


def predicted(changes: Iterable[PatchChange], run: str, root: Path) -> Gain | None:
    """The gain that the diagnosis predicts for these changes together, without the others that it proposed.

    None where one of them has no prediction: its gain would add to any bound of the others.
    """
    if not run or not folder(root, run).is_dir():
        return None
    rules = {rule for change in changes for rule in change.rules}
    try:
        report = diagnose.load(str(folder(root, run)), cwd=root)
    except UsageError:
        return None
    of = [one for one in report.recommendations if any(finding.rule.id in rules for finding in one.findings)]
    if any(one.gain is None for one in of):
        return None
    gain = of[0].gain if len(of) == 1 else together([found for one in of for found in one.findings], report)
    return replace(gain, basis=basis(gain, report.step)) if gain is not None else None


def folder(root: Path, run: str) -> Path:
    """The folder of a run of the project at `root`, whether it exists or not."""
    return root / ".autotune" / "runs" / run
