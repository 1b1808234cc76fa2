"""A change for the files as they are now: what moved is found again, and what is made already is left out."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace

from autotune.errors import UsageError
from autotune.model.patch import Edit, PatchChange
from autotune.model.scanned import TYPED
from autotune.patch.again import again, line_of
from autotune.patch.journal import sha256


@dataclass(frozen=True, slots=True)
class Renewed:
    """`moved` says where edits of the change were found again, `stale` why one of them cannot be made any more."""

    change: PatchChange
    moved: tuple[str, ...] = ()
    stale: UsageError | None = None


def renewed(change: PatchChange, read: Callable[[str], bytes]) -> Renewed:
    """The change with the edits that its files need now; `read` gives the bytes of a file that an edit names."""
    try:
        pairs = [(edit, _now(edit, read)) for edit in change.edits]
    except UsageError as error:
        return Renewed(change, stale=error)
    edits = tuple(now for _, now in pairs if now is not None)
    return Renewed(replace(change, edits=edits), tuple(_moved(pairs, read)))


def _now(edit: Edit, read: Callable[[str], bytes]) -> Edit | None:
    """The edit; one of a file that changed since is made again, and None where the file has it already."""
    if edit.file == TYPED:
        return edit
    data = read(edit.file)
    if edit.sha256 == sha256(data):
        return edit
    try:
        return again(data, edit)
    except UsageError as error:
        what = f"{edit.key}: the file changed since the diagnosis, and {error.what}; nothing was changed"
        to_do = "Diagnose again, or write the other changes with --select."
        raise UsageError(what, where=edit.file, to_do=to_do) from error


def _moved(pairs: Iterable[tuple[Edit, Edit | None]], read: Callable[[str], bytes]) -> Iterable[str]:
    for edit, now in pairs:
        if now is not None and now.sha256 != edit.sha256:
            line = line_of(read(edit.file), now.span)
            yield f"{edit.file} changed since the diagnosis: {edit.key} was found again at line {line}"
