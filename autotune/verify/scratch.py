"""The scratch folder of a verification: gone when it ends in any way, or when the next measurement finds it.

In it each side has a Mirror: a stand-in for the project's folder in which chosen files have other contents, and
everything else reads through.

Folders are folders, small files of code and settings are copies (so that a module, or a config that is found beside
it, is read from here whichever way its path is resolved), and every other file is a link to the real one. Large
folders, environments and repositories' innards are links as a whole. It lies as deep as the project does, and what is
beside the folders above it is linked too: "../data" leads where it led, although shutil.rmtree refuses it there. Python
writes nothing through a link: the probe redirects what the script writes.
"""

from __future__ import annotations

import os
import shutil
from collections import deque
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from itertools import islice
from pathlib import Path

from autotune.collect import artefacts, stale_runs
from autotune.errors import UsageError
from autotune.machine import identity
from autotune.model.verified import SIDES

COPIED = frozenset(
    (".py", ".pyi", ".sh", ".bash", ".yaml", ".yml", ".json", ".toml", ".cfg", ".conf", ".ini", ".txt", ".gin", ".env")
)
MOST_COPIED_BYTES = 256 << 10
MOST_ENTRIES = 20_000
"""Entries that are mirrored one by one, nearest to the top first; folders beyond them are links."""

MOST_IN_FOLDER = 2_000
MOST_BESIDE = 20_000
LINKED = frozenset((".git", ".hg", ".svn", "node_modules", "site-packages"))
LEFT_OUT = frozenset((".autotune", "__pycache__"))


@contextmanager
def mirrored(root: Path, edited: frozenset[Path]) -> Iterator[Mapping[str, Mirror]]:
    """A Mirror for each side in a run folder of its own; none when no file differs: the real files serve both then.

    Raises UsageError when one of the `edited` files lies outside the project.
    """
    outside = next((path for path in edited if not path.is_relative_to(root)), None)
    if outside is not None:
        raise UsageError(
            f"it lies outside the project {root}, so it cannot be changed in a copy",
            where=str(outside),
            to_do="Start autotune in a folder that holds all of the files.",
        )
    if not edited:
        yield {}
        return
    run = artefacts.new_run(root)
    places = {side: run / f"scratch-mirror-{number}" for number, side in enumerate(SIDES)}
    try:
        artefacts.write_json(run / artefacts.MANIFEST, identity())
        # Listed before it is made: a crash in between leaves nothing that the next measurement does not delete.
        lines = [f"{run.stat().st_dev} {place}\n" for place in places.values()]
        artefacts.write_text(run / stale_runs.SCRATCH_LIST, "".join(lines))
        yield {side: Mirror(root, place, edited) for side, place in places.items()}
    finally:
        shutil.rmtree(run, ignore_errors=True)


@contextmanager
def run_folder(root: Path) -> Iterator[Path]:
    """The folder of one run; what matters is read from it before it is deleted."""
    run = artefacts.new_run(root)
    try:
        yield run
    finally:
        shutil.rmtree(run, ignore_errors=True)


class Mirror:
    """The stand-in for the real folder `root`; `edited` are the real paths whose contents change.

    `top` stands for "/", and `place` below it for `root`.
    """

    def __init__(self, root: Path, top: Path, edited: frozenset[Path]) -> None:
        self.root, self.top = root, top
        self.place = top / root.relative_to(root.anchor)
        self._open = _parents(root, edited)
        self._left = MOST_ENTRIES
        self.place.mkdir(parents=True)
        for folder in (root, *root.parents)[:-1]:
            self._link_beside(folder)
        folders = deque([root])
        while folders:
            folders.extend(self._fill(folders.popleft()))

    def show(self, files: Mapping[Path, bytes]) -> None:
        """Let the stand-ins of these real files have these bytes."""
        for path, data in files.items():
            stand_in = self.at(path)
            stand_in.unlink(missing_ok=True)
            stand_in.write_bytes(data)
            shutil.copymode(path, stand_in)

    def at(self, path: Path) -> Path:
        """Where the real `path`, which lies in the root, stands here."""
        return self.place / path.relative_to(self.root)

    def mapped(self, text: str) -> str:
        """A word or variable: an absolute path into the root, also behind "--flag=" or between ":", leads here."""
        return ":".join(map(self._mapped_part, text.split(":")))

    def _mapped_part(self, text: str) -> str:
        head, equals, value = text.rpartition("=")
        path = Path(value)
        return f"{head}{equals}{self.at(path)}" if path.is_absolute() and path.is_relative_to(self.root) else text

    def _link_beside(self, folder: Path) -> None:
        """Link what lies beside this folder, which is the root or holds it; where that may not be listed, nothing."""
        try:
            with os.scandir(folder.parent) as found:
                beside = [Path(entry.path) for entry in islice(found, MOST_BESIDE) if entry.name != folder.name]
        except OSError:
            return
        for path in beside:
            target = Path(os.path.realpath(path)) if path.is_symlink() else path
            stand_in = self.at(target) if target.is_relative_to(self.root) else path
            (self.top / path.relative_to(path.anchor)).symlink_to(stand_in)

    def _fill(self, folder: Path) -> Iterator[Path]:
        """Make the stand-in's entries; yields the folders that are to be filled as well."""
        for entry in _entries(folder):
            self._left -= 1
            stand_in = self.at(Path(entry.path))
            if entry.is_symlink():
                self._link_again(Path(entry.path), stand_in)
            elif entry.is_dir():
                if self._is_mirrored(entry):
                    stand_in.mkdir()
                    yield Path(entry.path)
                else:
                    stand_in.symlink_to(entry.path)
            elif _is_copied(entry):
                shutil.copy2(entry.path, stand_in)
            else:
                stand_in.symlink_to(entry.path)

    def _is_mirrored(self, entry: os.DirEntry[str]) -> bool:
        path = Path(entry.path)
        if path in self._open:
            return True
        if entry.name in LINKED or self._left <= 0:
            return False
        try:
            if (path / "pyvenv.cfg").exists():
                return False
            with os.scandir(path) as found:
                return sum(1 for _ in islice(found, MOST_IN_FOLDER + 1)) <= MOST_IN_FOLDER
        except OSError:
            return False

    def _link_again(self, path: Path, stand_in: Path) -> None:
        """A link into the root leads to the stand-in of its target; any other to what it leads to."""
        target = path.parent / path.readlink()
        inside = Path(os.path.normpath(target))
        stand_in.symlink_to(self.at(inside) if inside.is_relative_to(self.root) else target)


def _parents(root: Path, edited: frozenset[Path]) -> frozenset[Path]:
    """The folders above the edited files: these are no links."""
    return frozenset(folder for path in edited for folder in path.parents if folder.is_relative_to(root))


def _entries(folder: Path) -> list[os.DirEntry[str]]:
    with os.scandir(folder) as found:
        return sorted((entry for entry in found if entry.name not in LEFT_OUT), key=lambda entry: entry.name)


def _is_copied(entry: os.DirEntry[str]) -> bool:
    return (
        entry.is_file()
        and Path(entry.name).suffix.lower() in COPIED
        and entry.stat().st_size <= MOST_COPIED_BYTES
        and os.access(entry.path, os.R_OK)
    )
