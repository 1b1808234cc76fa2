"""What of a written patch is in the files now, whatever else was edited in them since."""

from __future__ import annotations

from pathlib import Path

from msgspec import Struct

from autotune import reading
from autotune.errors import UsageError
from autotune.patch import three_way_undo
from autotune.patch.journal import WRITTEN, Journal, sha256


class PresentFile(Struct, frozen=True):
    """One file of a patch as it is `now`, and the same `without` the patch. `is_edited` says that it is not as the
    patch left it."""

    path: Path
    without: bytes
    now: bytes
    is_edited: bool


def present_files(journal: Journal) -> tuple[PresentFile, ...]:
    """The files of a patch that is in them; none where all or a part of it was taken back, or a file is gone.

    Raises UsageError where the lines that it wrote were edited since: `where` is the file and the line.
    """
    if journal.state != WRITTEN:
        return ()
    try:
        found = [_present(journal, index) for index in range(len(journal.files))]
    except OSError:
        return ()
    known = tuple(one for one in found if one is not None)
    return known if len(known) == len(found) else ()


def is_present(journal: Journal) -> bool:
    """Whether all that a patch wrote is in the files, as it wrote it."""
    try:
        return bool(present_files(journal))
    except UsageError:
        return False


def _present(journal: Journal, index: int) -> PresentFile | None:
    """None where the file has not all of the patch, or nobody knows what that was."""
    row = journal.files[index]
    path = Path(row.path)
    before, after, now = (reading.read(file) for file in (journal.before(index), journal.after(index), path))
    if (sha256(before), sha256(after)) != (row.before, row.after):
        return None
    if now == after:
        return PresentFile(path, before, now, is_edited=False)
    try:
        is_whole = three_way_undo.is_whole(before, after, now)
        return (
            PresentFile(path, three_way_undo.undo_hunks(before, after, now), now, is_edited=True) if is_whole else None
        )
    except UsageError as error:
        raise UsageError(error.what, where=f"{path}:{error.where}", to_do=error.to_do) from None
