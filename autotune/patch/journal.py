"""What was written, so that it can be taken back: one folder per patch, `patches/<number>/` in the project's state.

journal.json   the state and the files; replaced as a whole
before-N       the bytes of file N before the patch
after-N        and after it; before-N.1 and after-N.1 where a person edited the file before the patch is taken back

A folder whose journal was damaged is set aside: it is renamed to `<number>.damaged`, and is no patch any more.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from msgspec import Struct, to_builtins
from msgspec.structs import replace

from autotune.errors import UsageError
from autotune.patch.file_operations import Disk

SCHEMA = 1
_NAME = "journal.json"
_ASIDE = ".damaged"

WRITING, WRITTEN, UNDOING, UNDONE, LEFT = "writing", "written", "undoing", "undone", "left"
_FIELDS = ("state", "title", "left", "changes", "merged", "restored", "kept")
STATES = (WRITING, WRITTEN, UNDOING, UNDONE, LEFT)
UNFINISHED = (WRITING, UNDOING)
"""States that only a crash leaves behind: what they began is taken back, or taken back to the end."""


ChangeName = tuple[str, str]
"""The setting and the subject of a change: no patch has two changes of both."""


class PatchStore(Struct, frozen=True):
    """Where the patches of the project at `root` are kept: `folder`, outside of it, is this user's alone (state.py)."""

    root: Path
    folder: Path

    def holds(self, path: Path) -> bool:
        """Whether a real path lies in the project, and is what the journal meant: no link leads elsewhere by now."""
        return path.resolve() == path and path.is_relative_to(self.root.resolve())


class Written(Struct, frozen=True):
    """One file of a patch: its real path, and the SHA-256 of its bytes before and after."""

    path: str
    before: str
    after: str


class Journal(Struct, frozen=True):
    """One written patch. `number` names its folder; `title` is what `undo` prints.

    `changes` are the changes that its bytes make, each by its setting and subject; empty where nobody said.
    `left` are the indices of the files that somebody changed after a crash: they stay as they are, in state "left".
    `merged` are those of files that keep a person's own edits when the patch is taken back, `restored` those that a
    person had restored by then; `kept` counts how often the bytes to go back to were made anew for that.
    """

    folder: Path
    state: str
    title: str
    files: tuple[Written, ...]
    left: tuple[int, ...] = ()
    changes: tuple[ChangeName, ...] = ()
    merged: tuple[int, ...] = ()
    restored: tuple[int, ...] = ()
    kept: int = 0

    @property
    def number(self) -> int:
        return int(self.folder.name)

    @property
    def exceptions(self) -> str:
        """Of what was taken back: the files that were not, and where their bytes from before are; else ""."""
        kept = [f"{self.files[index].path} (before the patch: {self.before(index)})" for index in self.left]
        return f" except what changed since: {', '.join(kept)}" if kept else ""

    def before(self, index: int) -> Path:
        """The kept bytes of file `index` before the patch."""
        return self.folder / f"before-{index}{f'.{self.kept}' if self.kept else ''}"

    def after(self, index: int) -> Path:
        """The kept bytes of file `index` after the patch."""
        return self.folder / f"after-{index}{f'.{self.kept}' if self.kept else ''}"


class Damaged(Struct, frozen=True):
    """A folder whose journal makes no sense, and why: nobody knows which files it is of."""

    folder: Path
    why: str


def sha256(data: bytes) -> str:
    """The hexadecimal digest that journals and patches name contents by."""
    return hashlib.sha256(data).hexdigest()


def begin(
    folder: Path, title: str, files: Sequence[tuple[Path, bytes, bytes]], changes: Sequence[ChangeName], disk: Disk
) -> Journal:
    """Keep (path, before, after) of all files in a new folder below `folder`, and say that writing begins."""
    own = _new_folder(folder, disk)
    written = tuple(Written(str(path), sha256(before), sha256(after)) for path, before, after in files)
    journal = Journal(own, WRITING, title, written, changes=tuple(changes))
    for index, (_, before, after) in enumerate(files):
        disk.create(journal.before(index), before)
        disk.create(journal.after(index), after)
    save(journal, disk)
    return journal


def without_hunks(
    journal: Journal, states: Sequence[tuple[bytes, bytes]], merged: Sequence[int], restored: Sequence[int], disk: Disk
) -> Journal:
    """The journal of an undo that goes from each file's bytes as they are now to others: `states` are (back, now).

    Its bytes are kept, and it is not saved yet: until then it is the one that was written.
    """
    files = tuple(
        replace(row, before=sha256(back), after=sha256(now))
        for row, (back, now) in zip(journal.files, states, strict=True)
    )
    made = replace(journal, files=files, merged=tuple(merged), restored=tuple(restored), kept=journal.kept + 1)
    for index, (back, now) in enumerate(states):
        for path, data in ((made.before(index), back), (made.after(index), now)):
            disk.remove(path)
            disk.create(path, data)
    return made


def save(journal: Journal, disk: Disk) -> None:
    """Replace the journal's file by one with this state."""
    part = journal.folder / f"{_NAME}.part"
    data = {name: getattr(journal, name) for name in _FIELDS}
    files = to_builtins(journal.files)
    disk.remove(part)
    disk.create(part, json.dumps({"schema": SCHEMA, **data, "files": files}, indent=1).encode())
    disk.replace(part, journal.folder / _NAME)


def with_state(journal: Journal, state: str, disk: Disk) -> Journal:
    """The journal in a new state, saved."""
    journal = replace(journal, state=state)
    save(journal, disk)
    return journal


def written_at(journal: Journal) -> float:
    """When its state last changed, in seconds since the epoch: of a patch that is in the files, when it was written."""
    return (journal.folder / _NAME).stat().st_mtime


def journals(folder: Path) -> tuple[Journal, ...]:
    """All journals below `folder`, the oldest first. A folder without a journal never began to write.

    Raises UsageError when the disk does not give one of them: it may be healthy, so nothing is done without it.
    """
    return tuple(each for each in map(_load_journal, _numbered_folders(folder)) if isinstance(each, Journal))


def damaged_journals(folder: Path) -> tuple[Damaged, ...]:
    """The folders below `folder` whose journal makes no sense. Raises UsageError as `journals` does."""
    return tuple(each for each in map(_load_journal, _numbered_folders(folder)) if isinstance(each, Damaged))


def quarantine(one: Damaged, disk: Disk) -> None:
    """Rename a folder so that it is no patch any more; all that it keeps stays in it."""
    disk.replace(one.folder, quarantine_path(one.folder))


def quarantine_path(folder: Path) -> Path:
    """What a folder with a damaged journal is renamed to."""
    return folder.with_name(f"{folder.name}{_ASIDE}")


def _numbered_folders(folder: Path) -> list[Path]:
    try:
        numbered = sorted((one for one in folder.iterdir() if one.name.isdecimal()), key=lambda one: int(one.name))
        return [one for one in numbered if (one / _NAME).is_file()]
    except FileNotFoundError:
        return []
    except OSError as error:
        raise _unreadable(folder, error) from error


def _load_journal(folder: Path) -> Journal | Damaged:
    try:
        data = (folder / _NAME).read_bytes()
    except OSError as error:
        raise _unreadable(folder / _NAME, error) from error
    try:
        return _read(folder, data)
    except (ValueError, LookupError, TypeError, RecursionError) as error:
        return Damaged(folder, str(error) or "it cannot be read")


def _unreadable(path: Path, error: OSError) -> UsageError:
    return UsageError(
        f"the data for undo cannot be read: {error.strerror}; nothing was changed",
        where=str(path),
        to_do="It was not changed: try again when the disk can be read.",
    )


def _read(folder: Path, journal: bytes) -> Journal:
    data: Any = json.loads(journal)
    files = tuple(Written(**row) for row in data["files"])
    state, title, kept = data["state"], data["title"], data.get("kept", 0)
    if not files or not all(isinstance(text, str) for one in files for text in (one.path, one.before, one.after)):
        raise ValueError("it names no files")
    if state not in STATES or not isinstance(title, str):
        raise ValueError(f"its state is {state!r}")
    if type(kept) is not int or kept < 0:
        raise ValueError(f"`kept` is {kept!r}")
    left, merged, restored = (_indices(data, name, len(files)) for name in ("left", "merged", "restored"))
    changes = tuple((setting, subject) for setting, subject in data.get("changes", ()))
    return Journal(folder, state, title, files, left, changes, merged, restored, kept)


def _indices(data: Any, name: str, num_files: int) -> tuple[int, ...]:
    found = tuple(data.get(name, ()))
    if not all(type(index) is int and 0 <= index < num_files for index in found):
        raise ValueError(f"`{name}` names files that it does not have")
    return found


def _new_folder(folder: Path, disk: Disk) -> Path:
    names = [one.name.removesuffix(_ASIDE) for one in folder.glob("*")]
    number = max((int(name) for name in names if name.isdecimal()), default=0) + 1
    own = folder / str(number)
    disk.make_folder(own)
    return own
