"""undo: the files of a written patch as they were, and which project's patch that is."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from pathlib import Path

from msgspec import Struct

from autotune import patch, state
from autotune.apply.apply import PATCHES, patch_store
from autotune.errors import UsageError
from autotune.patch import journal as journals
from autotune.patch.journal import WRITTEN, Journal


class Undone(Struct, frozen=True):
    """The patch that was taken back, of the project at `root`. `newer` says of a patch that was written after it into
    another project how that is taken back, "" where there is none."""

    root: Path
    journal: Journal
    newer: str = ""


def undo(number: int | None, *, cwd: Path) -> Undone:
    """Give the files of the newest written patch of this folder's project, or of its patch `number`, their bytes from
    before."""
    store = patch_store(cwd)
    if store is None:
        raise UsageError(
            "there is no applied patch to undo",
            where=str(cwd),
            to_do=_newer(None, 0) or "undo works only in the project where `apply` ran, not in a copied or moved one.",
        )
    written_ns = max((_written_ns(one) for one in _written(store.folder)), default=0)
    newer = _newer(store.root, written_ns) if number is None else ""
    try:
        return Undone(store.root, patch.undo(store, number), newer)
    except UsageError as error:
        if newer and not written_ns:
            error.to_do = newer
        raise


def _newer(root: Path | None, written_ns: int) -> str:
    """Of the newest patch of another project than `root` that was written after `written_ns`; "" without one."""
    others = ((other, one) for other in state.projects() if other != root for one in _of_project(other))
    found = max(((_written_ns(one), other, one) for other, one in others), key=lambda row: row[0], default=None)
    if found is None or found[0] <= written_ns:
        return ""
    _, other, one = found
    command = f"cd {shlex.quote(str(other))} && autotune undo {one.number}"
    return f"The last `autotune apply` wrote into {other}. To undo it: `{command}`"


def _of_project(root: Path) -> Sequence[Journal]:
    """The written patches of another project; none where they cannot be read, which is for an undo there to say."""
    known = state.known_project(root)
    try:
        return _written(known / PATCHES) if known is not None else ()
    except UsageError:
        return ()


def _written(folder: Path) -> Sequence[Journal]:
    return [one for one in journals.journals(folder) if one.state == WRITTEN]


def _written_ns(one: Journal) -> int:
    """When it was written: an undo writes its folder again, and then it is not written any more."""
    return one.folder.stat().st_mtime_ns
