"""Writes files all or none, takes a written patch back, and ends what a crash interrupted."""

from __future__ import annotations

import contextlib
import errno
import os
from collections.abc import Iterator, Sequence
from pathlib import Path

from msgspec.structs import replace

from autotune.errors import UsageError
from autotune.patch import journal as journals
from autotune.patch import three_way_undo
from autotune.patch.file_operations import Disk
from autotune.patch.journal import (
    LEFT,
    UNDOING,
    UNDONE,
    UNFINISHED,
    WRITTEN,
    ChangeName,
    Damaged,
    Journal,
    PatchStore,
    sha256,
    with_state,
)

_PART = ".autotune-part"

_BY_HAND = "Make the changes that `autotune apply --diff` shows by hand."
_NOT_YET = "an interrupted patch is not undone yet"


class _BusyError(UsageError):
    """Another process holds the lock."""


def write(
    store: PatchStore,
    title: str,
    files: Sequence[tuple[Path, bytes, bytes]],
    disk: Disk | None = None,
    changes: Sequence[ChangeName] = (),
) -> Journal:
    """Replace the contents of all files (path, before, after), or of none; `store` keeps what undo needs.

    `changes` names what the new contents change, for whoever reads the journal.
    A symbolic link stays one: its target is written. Raises UsageError, with nothing changed, when a file is not
    what `before` says, cannot be written, is given twice or lies outside the project of `store`, the disk is full, or
    another autotune writes.
    """
    disk = disk or Disk()
    real = [(path.resolve(), before, after) for path, before, after in files]
    with _lock(store.folder):
        _recover_locked(store, disk)
        for path, before, _ in real:
            _check(path, sha256(before), disk)
        _check_places([path for path, _, _ in real], store)
        journal = _kept(store.folder, title, real, changes, disk)
        try:
            _copy_files([(journal.after(index), path) for index, (path, _, _) in enumerate(real)], disk)
            return with_state(journal, WRITTEN, disk)
        except OSError as error:
            raise _refused_error(error, _taken_back(journal, store, disk)) from error


def undo(store: PatchStore, number: int | None = None, disk: Disk | None = None) -> Journal:
    """Give all files of the newest written patch (or of patch `number`) their bytes from before it.

    A file that a person edited since keeps those edits: only the patch's own lines go back. One that a person restored
    meanwhile stays, and where all are, the patch counts as taken back.

    A patch whose writing or undoing was interrupted is taken back first; where that is the one that is asked for, or
    none is named, nothing else is. Raises UsageError, with nothing changed, when there is none, or when the lines of
    the patch themselves were edited since.
    """
    disk = disk or Disk()
    with _lock(store.folder):
        for ended in reversed(_recover_locked(store, disk)):
            if number in (None, ended.number):
                return ended
        journal = _chosen_journal(store, number)
        for index, each in enumerate(journal.files):
            _check_unchanged(journal.before(index), each.before, disk)
        _check_places([Path(each.path) for each in journal.files], store)
        try:
            journal = _without_edits(journal, disk)
            for index, each in enumerate(journal.files):
                if index not in journal.restored:
                    _check(Path(each.path), each.after, disk)
            return _take_back(with_state(journal, UNDOING, disk), store, disk)
        except OSError as error:
            raise _refused_error(error, "`autotune undo` completes it") from error


def _without_edits(journal: Journal, disk: Disk) -> Journal:
    """The journal for the files as they are now, where a person changed some of them since they were written."""
    states: list[tuple[bytes, bytes]] = []
    merged: list[int] = []
    restored: list[int] = []
    for index, row in enumerate(journal.files):
        before, now = disk.read(journal.before(index)), _contents_now(Path(row.path), disk)
        if now == before:
            restored.append(index)
        elif sha256(now) != row.after:
            before = _merge_file(journal, index, now, disk)
            (restored if before == now else merged).append(index)
        states.append((before, now))
    if not (merged or restored):
        return journal
    return journals.without_hunks(journal, states, merged, restored, disk)


def _merge_file(journal: Journal, index: int, now: bytes, disk: Disk) -> bytes:
    """File `index` without the patch and with what a person wrote into it since."""
    row = journal.files[index]
    _check_unchanged(journal.after(index), row.after, disk)
    try:
        return three_way_undo.undo_hunks(disk.read(journal.before(index)), disk.read(journal.after(index)), now)
    except UsageError as error:
        raise UsageError(
            f"{error.what}; nothing was changed",
            where=f"{row.path}:{error.where}",
            to_do=f"Undo it by hand. {error.to_do}",
        ) from None


def _contents_now(path: Path, disk: Disk) -> bytes:
    try:
        return disk.read(path)
    except OSError as error:
        raise UsageError(f"cannot be read: {error.strerror}; nothing was changed", where=str(path)) from error


def is_interrupted(store: PatchStore) -> bool:
    """Whether a crash left a patch half written or half undone, or a journal makes no sense; nothing is changed."""
    return bool(journals.damaged_journals(store.folder) or _unfinished(store))


def recover(store: PatchStore, disk: Disk | None = None) -> tuple[Journal, ...]:
    """Take back every patch that a crash left half written or half undone; return those.

    A file that is neither what it was nor what it became stays: somebody changed it since, and its patch ends as
    "left". What another autotune writes at this moment is not touched. A damaged journal is set aside, so that it is
    in nobody's way. Raises UsageError, which says so, and when the disk fails.
    """
    if not is_interrupted(store):  # nearly always: no lock
        return ()
    try:
        with _lock(store.folder, _NOT_YET):
            return _recover_locked(store, disk or Disk())
    except _BusyError:
        return ()


def _set_aside(damaged: Sequence[Damaged]) -> UsageError:
    reasons = "; ".join(each.why for each in damaged)
    return UsageError(
        f"a damaged journal ({reasons}) was set aside: what it wrote stays, and undo does not know it",
        where=" and ".join(str(journals.quarantine_path(each.folder)) for each in damaged),
        to_do="The files before and after the patch are stored there (before-0, after-0, ...): compare them.",
    )


def _recover_locked(store: PatchStore, disk: Disk) -> tuple[Journal, ...]:
    """The lock is held: what is unfinished now, nobody works on. Raises UsageError where a journal was set aside: what
    was asked for may have been that patch."""
    damaged = journals.damaged_journals(store.folder)
    try:
        for each in damaged:
            journals.quarantine(each, disk)
        recovered = tuple(_take_back(each, store, disk) for each in _unfinished(store))
    except OSError as error:
        raise _refused_error(error, _NOT_YET) from error
    if damaged:
        raise _set_aside(damaged)
    return recovered


def _unfinished(store: PatchStore) -> list[Journal]:
    return [each for each in journals.journals(store.folder) if each.state in UNFINISHED]


def _take_back(journal: Journal, store: PatchStore, disk: Disk) -> Journal:
    """Every file gets its bytes from before; files that have them already, or other ones, stay as they are.

    So does one that a link leads out of the project by now.
    """
    paths = [Path(each.path) for each in journal.files]
    for path in paths:
        if store.holds(path):
            disk.remove(_part(path))
    changed = [
        (index, _is_ours(journal, index, store, disk))
        for index, (path, each) in enumerate(zip(paths, journal.files, strict=True))
        if not store.holds(path) or _digest(path, disk) != each.before
    ]
    _copy_files([(journal.before(index), paths[index]) for index, is_ours in changed if is_ours], disk)
    left = tuple(index for index, is_ours in changed if not is_ours)
    return with_state(replace(journal, left=left), LEFT if left else UNDONE, disk)


def _is_ours(journal: Journal, index: int, store: PatchStore, disk: Disk) -> bool:
    """Whether file `index` holds what the patch wrote, and its bytes from before are as they were kept."""
    path, row = Path(journal.files[index].path), journal.files[index]
    if not store.holds(path):
        return False
    return _digest(path, disk) == row.after and _digest(journal.before(index), disk) == row.before


def _digest(path: Path, disk: Disk) -> str:
    """Of the file's bytes; "" when there is no such file any more."""
    try:
        return sha256(disk.read(path))
    except (FileNotFoundError, NotADirectoryError, IsADirectoryError):
        return ""


def _taken_back(journal: Journal, store: PatchStore, disk: Disk) -> str:
    """Take back what failed, and say what became of it."""
    try:
        exceptions = _take_back(journal, store, disk).exceptions
    except OSError:
        return "`autotune undo` reverts what was written"
    return f"all files were restored{exceptions}" if exceptions else "nothing was changed"


def _copy_files(files: Sequence[tuple[Path, Path]], disk: Disk) -> None:
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


def _kept(
    folder: Path, title: str, files: Sequence[tuple[Path, bytes, bytes]], changes: Sequence[ChangeName], disk: Disk
) -> Journal:
    try:
        return journals.begin(folder, title, files, changes, disk)
    except OSError as error:
        raise _refused_error(error, "nothing was changed") from error


def _check(path: Path, digest: str, disk: Disk) -> None:
    _check_unchanged(path, digest, disk)
    for place in (path, path.parent):
        if not os.access(place, os.W_OK):
            raise UsageError(
                "cannot be written; nothing was changed", where=str(place), to_do="Give yourself write permission."
            )
    if path.stat().st_nlink > 1:
        raise UsageError(
            "the file has a second name (a hard link), which would keep the old bytes; nothing was changed",
            where=str(path),
            to_do="Edit it by hand, or make the other name a symbolic link.",
        )


def _check_unchanged(path: Path, digest: str, disk: Disk) -> None:
    try:
        data = disk.read(path)
    except OSError as error:
        raise UsageError(f"cannot be read: {error.strerror}; nothing was changed", where=str(path)) from error
    if sha256(data) != digest:
        raise UsageError(
            "the file changed since; nothing was changed in it",
            where=str(path),
            to_do="Diagnose again, or edit it by hand.",
        )


def _check_places(paths: Sequence[Path], store: PatchStore) -> None:
    for index, path in enumerate(paths):
        try:
            is_twice = any(path.samefile(other) for other in paths[:index])
        except OSError as error:
            raise UsageError(f"cannot be read: {error.strerror}; nothing was changed", where=error.filename) from error
        if is_twice:
            raise UsageError("the file is given twice; nothing was changed", where=str(path))
        if not store.holds(path):
            raise UsageError(f"the file lies outside the project {store.root}; nothing was changed", where=str(path))


def _chosen_journal(store: PatchStore, number: int | None) -> Journal:
    root = store.root
    known = {each.number: each for each in journals.journals(store.folder)}
    written = [each.number for each in known.values() if each.state == WRITTEN]
    if not written and number is None:
        raise UsageError("there is no applied patch to undo", where=str(root))
    wanted = max(written) if number is None else number
    if wanted not in written:
        listed = ", ".join(map(str, written)) or "none"
        left = known[wanted].exceptions if wanted in known else ""
        what = f"patch {wanted} was undone{left}" if left else f"there is no applied patch {wanted}"
        raise UsageError(what, where=str(root), to_do=f"Applied and not undone: {listed}.")
    return known[wanted]


def _refused_error(error: OSError, state: str) -> UsageError:
    what = "the disk is full" if error.errno in (errno.ENOSPC, errno.EDQUOT) else f"cannot be written: {error.strerror}"
    return UsageError(f"{what}; {state}", where=str(error.filename or ""))


@contextlib.contextmanager
def _lock(folder: Path, without: str = "nothing was changed") -> Iterator[None]:
    """Hold the lock of `folder`; the system takes it away from a process that dies.

    `without` says how things stand where the lock cannot be made.
    """
    try:
        import fcntl
    except ImportError as error:  # Windows
        raise UsageError("files are written on Linux and macOS only", to_do=_BY_HAND) from error
    try:
        folder.mkdir(parents=True, exist_ok=True)
        file = os.fdopen(os.open(folder / "lock", os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600), "w")
    except OSError as error:
        raise _refused_error(error, without) from error
    with file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            raise _BusyError("another autotune process writes here; nothing was changed", where=str(folder)) from error
        yield
