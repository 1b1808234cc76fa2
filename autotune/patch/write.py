"""Writes files all or none, takes a written patch back, and ends what a crash interrupted."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
from collections.abc import Iterator, Sequence
from pathlib import Path

from autotune.errors import UsageError
from autotune.patch import journal as journals
from autotune.patch.disk import Disk
from autotune.patch.journal import UNDOING, UNDONE, UNFINISHED, WRITTEN, Journal, sha256, turned

_PART = ".autotune-part"


def write(folder: Path, title: str, files: Sequence[tuple[Path, bytes, bytes]], disk: Disk | None = None) -> Journal:
    """Replace the contents of all files (path, before, after), or of none; `folder` keeps what undo needs.

    A symbolic link stays one: its target is written. Raises UsageError, with nothing changed, when a file is not
    what `before` says, cannot be written, the disk is full, or another autotune writes.
    """
    disk = disk or Disk()
    real = [(path.resolve(), before, after) for path, before, after in files]
    with _locked(folder):
        recover(folder, disk, locked=True)
        for path, before, _ in real:
            _check(path, before, disk)
        journal = _kept(folder, title, real, disk)
        try:
            _put([(journal.after(index), path) for index, (path, _, _) in enumerate(real)], disk)
            return turned(journal, WRITTEN, disk)
        except OSError as error:
            raise _refused(error, _taken_back(journal, disk)) from error


def undo(folder: Path, number: int | None = None, disk: Disk | None = None) -> Journal:
    """Give all files of the newest written patch (or of patch `number`) their bytes from before it.

    Raises UsageError, with nothing changed, when there is none, or when a file changed since.
    """
    disk = disk or Disk()
    with _locked(folder):
        recover(folder, disk, locked=True)
        journal = _chosen(folder, number)
        for each in journal.files:
            _check_unchanged(Path(each.path), each.after, disk)
        journal = turned(journal, UNDOING, disk)
        try:
            return _take_back(journal, disk)
        except OSError as error:
            raise _refused(error, "the next autotune command goes on with it") from error


def recover(folder: Path, disk: Disk | None = None, *, locked: bool = False) -> tuple[Journal, ...]:
    """Take back every patch that a crash left half written or half undone; return those.

    Raises UsageError when a file of one is neither what it was nor what it became: a person changed it since.
    """
    unfinished = [each for each in journals.journals(folder) if each.state in UNFINISHED]
    if not unfinished:
        return ()
    disk = disk or Disk()
    with contextlib.nullcontext() if locked else _locked(folder):
        return tuple(_take_back(each, disk) for each in unfinished)


def _take_back(journal: Journal, disk: Disk) -> Journal:
    """Every file gets its bytes from before; files that have them already stay as they are."""
    current = [(Path(each.path), sha256(disk.read(Path(each.path))), each) for each in journal.files]
    for path, digest, each in current:
        if digest not in (each.before, each.after):
            raise _changed(path, str(journal.before(journal.files.index(each))))
    for path, _, _ in current:
        disk.remove(_part(path))
    changed = [index for index, (_, digest, each) in enumerate(current) if digest != each.before]
    _put([(journal.before(index), current[index][0]) for index in changed], disk)
    return turned(journal, UNDONE, disk)


def _taken_back(journal: Journal, disk: Disk) -> str:
    """Take back what failed, and say what became of it."""
    try:
        _take_back(journal, disk)
    except OSError:
        return "the next autotune command takes back what was written"
    return "nothing was changed"


def _put(files: Sequence[tuple[Path, Path]], disk: Disk) -> None:
    """Let each second path have the bytes of the first; its permissions stay.

    All bytes are on the disk before the first file is replaced, so that a full disk changes none.
    """
    for kept, path in files:
        disk.remove(_part(path))
        disk.create(_part(path), disk.read(kept), like=path)
    for _, path in files:
        disk.replace(_part(path), path)


def _part(path: Path) -> Path:
    return path.with_name(f".{path.name}{_PART}")


def _kept(folder: Path, title: str, files: Sequence[tuple[Path, bytes, bytes]], disk: Disk) -> Journal:
    try:
        return journals.begin(folder, title, files, disk)
    except OSError as error:
        raise _refused(error, "nothing was changed") from error


def _check(path: Path, before: bytes, disk: Disk) -> None:
    _check_unchanged(path, sha256(before), disk)
    for place in (path, path.parent):
        if not os.access(place, os.W_OK):
            raise UsageError(
                "cannot be written; nothing was changed", where=str(place), to_do="Give yourself the right to write it."
            )


def _check_unchanged(path: Path, digest: str, disk: Disk) -> None:
    try:
        data = disk.read(path)
    except OSError as error:
        raise UsageError(f"cannot be read: {error.strerror}; nothing was changed", where=str(path)) from error
    if sha256(data) != digest:
        raise _changed(path)


def _changed(path: Path, kept: str = "") -> UsageError:
    hint = f"What it was before is kept in {kept}." if kept else "Diagnose again, or edit it by hand."
    return UsageError("the file changed since; nothing was changed in it", where=str(path), to_do=hint)


def _chosen(folder: Path, number: int | None) -> Journal:
    written = {each.number: each for each in journals.journals(folder) if each.state == WRITTEN}
    if not written:
        raise UsageError("there is no written patch to undo", where=str(folder))
    wanted = max(written) if number is None else number
    if wanted not in written:
        listed = ", ".join(map(str, written))
        raise UsageError(f"there is no written patch {wanted}", to_do=f"Written and not undone: {listed}.")
    return written[wanted]


def _refused(error: OSError, state: str) -> UsageError:
    what = "the disk is full" if error.errno in (errno.ENOSPC, errno.EDQUOT) else f"cannot be written: {error.strerror}"
    return UsageError(f"{what}; {state}", where=str(error.filename or ""))


@contextlib.contextmanager
def _locked(folder: Path) -> Iterator[None]:
    """Hold the lock of `folder`; the system takes it away from a process that dies."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        file = (folder / "lock").open("w")
    except OSError as error:
        raise _refused(error, "nothing was changed") from error
    with file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            raise UsageError("another autotune writes here; nothing was changed", where=str(folder)) from error
        yield
