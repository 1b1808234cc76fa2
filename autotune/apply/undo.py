"""undo: reverts the files of an applied patch, and finds the project of that patch."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from pathlib import Path

from autotune import patch, state
from autotune.apply.applied_patches import PATCHES, patch_store
from autotune.errors import UsageError
from autotune.model.applied import Undone, UndoneFile, UndoneState
from autotune.patch import journal as journals
from autotune.patch.journal import WRITTEN, Journal


def undo(number: int | None, *, cwd: Path) -> Undone:
    """Restore the files that a patch of this folder's project changed: patch `number`, or the newest applied one."""
    store = patch_store(cwd)
    if store is None:
        raise UsageError(
            "there is no applied patch to undo",
            where=str(cwd),
            to_do=_newer_elsewhere(None, 0)
            or "undo works only in the project where `apply` ran, not in a copied or moved one.",
        )
    written_ns = max(map(_written_ns, _applied_patches(store.folder)), default=0)
    newer = _newer_elsewhere(store.root, written_ns) if number is None else ""
    try:
        journal = patch.undo(store, number)
    except UsageError as error:
        if newer and not written_ns:
            error.to_do = newer
        raise
    files = tuple(_undone_file(journal, index) for index in range(len(journal.files)))
    return Undone(store.root, journal.number, journal.title, files, newer)


def _newer_elsewhere(root: Path | None, written_ns: int) -> str:
    """How to undo the newest patch of another project than `root` that was written after `written_ns`; "" without
    one."""
    patches = [
        (_written_ns(one), other, one) for other in state.projects() if other != root for one in _patches_of(other)
    ]
    last_ns, other, newest = max(patches, key=lambda each: each[0], default=(0, None, None))
    if other is None or newest is None or last_ns <= written_ns:
        return ""
    command = f"cd {shlex.quote(str(other))} && autotune undo {newest.number}"
    return f"The last `autotune apply` wrote into {other}. To undo it: `{command}`"


def _patches_of(root: Path) -> Sequence[Journal]:
    """The applied patches of another project; none where they cannot be read, which an undo there reports."""
    folder = state.known_project(root)
    try:
        return _applied_patches(folder / PATCHES) if folder is not None else ()
    except UsageError:
        return ()


def _applied_patches(folder: Path) -> Sequence[Journal]:
    return [one for one in journals.journals(folder) if one.state == WRITTEN]


def _written_ns(journal: Journal) -> int:
    """When it was applied. An undo changes this time too, but then the patch is no longer applied."""
    return journal.folder.stat().st_mtime_ns


def _undone_file(journal: Journal, index: int) -> UndoneFile:
    became: UndoneState = "reverted"
    if index in journal.left:
        became = "changed since"
    elif index in journal.merged:
        became = "edits kept"
    elif index in journal.restored:
        became = "restored before"
    return UndoneFile(Path(journal.files[index].path), became, journal.before(index))
