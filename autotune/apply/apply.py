"""apply: from a patch file to the files. No rule runs.

1. Find the patch and its project (patch_source.py).
2. Resolve its edits in the files as they are now.
3. Choose the changes that are written (selected_changes.py).
4. Write all their files or none, with a journal by which `undo` takes them back.
"""

from __future__ import annotations

import shlex
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from msgspec import Struct, field
from msgspec.structs import replace

from autotune import patch, reading, state
from autotune.apply import patch_source
from autotune.apply.applied_patches import PATCHES, patch_store, title, written_by
from autotune.apply.selected_changes import choose
from autotune.errors import UsageError
from autotune.invocation import typed
from autotune.invocation.redacted import is_whole
from autotune.model.applied import ApplyPlan
from autotune.model.patch import Edit, Patch, PatchChange
from autotune.model.rule import Effect
from autotune.model.scanned import TYPED
from autotune.patch.command_line import launch, with_values
from autotune.patch.journal import ChangeName, Journal, PatchStore
from autotune.patch.resolve import ResolvedChange, apply_edits, drop_incomplete_pairs, resolve_change


class ApplyOptions(Struct, frozen=True):
    """`name` is a patch file, a run, or "last"; `select` are ids of rules or names of settings, empty for all."""

    name: str = "last"
    select: tuple[str, ...] = ()
    allow: frozenset[Effect] = field(default_factory=frozenset)


def plan(options: ApplyOptions, *, cwd: Path) -> ApplyPlan:
    """What the patch would write. Raises UsageError when an edit has no place in a file any more."""
    source = patch_source.find(options.name, cwd)
    proposed, root = source.patch, source.root
    written = written_by(root, proposed.run)
    resolved = _resolve(proposed, written, root)
    chosen, left = choose([each.change for each in resolved], options.select, options.allow, written)
    moved = _refuse_stale([each for each in resolved if each.change in chosen])
    edits = dict.fromkeys(edit for change in chosen for edit in change.edits)
    on_command_line = [edit for edit in edits if edit.file == TYPED]
    by_file = _by_file([edit for edit in edits if edit.file != TYPED], root)
    return ApplyPlan(
        root=root,
        run=proposed.run,
        title=title(len(chosen), len(proposed.changes), proposed.run),
        chosen=tuple(chosen),
        left=tuple(left),
        files=tuple(_before_and_after(path, each) for path, each in by_file.items()),
        typed=" ".join(_words_of(edit, proposed.command) for edit in on_command_line),
        command=_new_command(proposed, on_command_line, root, cwd),
        moved=moved,
        doubt=source.doubt,
        of=typed(proposed.command),
    )


def write(planned: ApplyPlan) -> Journal | None:
    """Write the files of `planned`, all or none; None when there is none."""
    if not planned.files:
        return None
    in_files = [change for change in planned.chosen if any(edit.file != TYPED for edit in change.edits)]
    changes = [(change.setting, change.subject) for change in in_files]
    store = PatchStore(planned.root, state.project(planned.root) / PATCHES)
    return patch.write(store, planned.title, planned.files, changes=changes)


def recover(cwd: Path) -> tuple[Journal, ...]:
    """Take back what a crash left half written in this project."""
    store = patch_store(cwd)
    return () if store is None else patch.recover(store)


def is_interrupted(cwd: Path) -> bool:
    """Whether a crash left something half written in this project; nothing is changed."""
    store = patch_store(cwd)
    return store is not None and patch.is_interrupted(store)


def _resolve(proposed: Patch, written: Mapping[ChangeName, int], root: Path) -> list[ResolvedChange]:
    """The changes with the places of their edits in the files as they are now."""

    def read(name: str) -> bytes:
        return _read(_path_inside(root, name))

    return list(drop_incomplete_pairs([_resolve_one(change, written, read) for change in proposed.changes]))


def _resolve_one(
    change: PatchChange, written: Mapping[ChangeName, int], read: Callable[[str], bytes]
) -> ResolvedChange:
    """A change that was applied leaves only its edits of the command line."""
    if (change.setting, change.subject) not in written:
        return resolve_change(change, read)
    return ResolvedChange(replace(change, edits=tuple(one for one in change.edits if one.file == TYPED)), is_made=True)


def _refuse_stale(chosen: Sequence[ResolvedChange]) -> tuple[str, ...]:
    """What was found elsewhere. Raises UsageError where an edit was not found at all."""
    for stale in (each.stale for each in chosen if each.stale is not None):
        raise stale
    return tuple(dict.fromkeys(line for each in chosen for line in each.moved))


def _by_file(edits: Sequence[Edit], root: Path) -> dict[Path, list[Edit]]:
    """The edits of each file, by its real path; a file of two names gets all of them, equal ones once."""
    names: dict[Path, str] = {}
    by_file: dict[Path, dict[Edit, None]] = {}
    for edit in edits:
        path = _path_inside(root, edit.file)
        name = names.setdefault(path, edit.file)
        by_file.setdefault(path, {})[replace(edit, file=name)] = None
    return {path: list(each) for path, each in by_file.items()}


def _path_inside(root: Path, name: str) -> Path:
    """The real path of a patch's file. Raises UsageError when it lies outside `root`."""
    try:
        path = (root / name).resolve()
    except (OSError, RuntimeError, ValueError) as error:
        raise UsageError(f"is not a file name: {error}", where=repr(name)) from error
    if not path.is_relative_to(root):
        raise UsageError(
            f"it lies outside the project {root}; nothing was changed",
            where=name,
            to_do="Edit it by hand, and write the other changes with --select.",
        )
    return path


def _before_and_after(path: Path, edits: Sequence[Edit]) -> tuple[Path, bytes, bytes]:
    before = _read(path)
    return path, before, apply_edits(before, edits)


def _read(path: Path) -> bytes:
    """What lies at the real path of a file that a patch edits."""
    try:
        return reading.read(path)
    except OSError as error:
        raise UsageError(f"cannot be edited: {error.strerror}; nothing was changed", where=str(path)) from error


def _words_of(edit: Edit, command: Sequence[str]) -> str:
    """The words that give one value, spelled as on the command line `command`."""
    if not edit.new:
        return f"(without {edit.key})"
    same_key = [word for word in command if word.lstrip("+").startswith(f"{edit.key}=")]
    return shlex.join(with_values(same_key[-1:], [edit]))


def _new_command(proposed: Patch, edits: Sequence[Edit], root: Path, cwd: Path) -> str:
    """The user's launch command with the new values in it, to be run in `cwd`; it changes to the folder of the run
    where that is another. "" without edits, and where the values cannot be put into the command automatically."""
    if not edits or not is_whole(proposed.command):
        return ""
    started_in = state.folders(root).get(proposed.run, cwd)
    away = "" if started_in.resolve() == cwd.resolve() else f"cd {shlex.quote(str(started_in))} && "
    try:
        return f"{away}{launch(proposed.command, edits)}"
    except UsageError:
        return ""
