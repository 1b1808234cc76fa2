"""A look at the project's files before and after a run: what really changed, whatever was meant to prevent it."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from stat import S_ISDIR

MOST_FILES = 50_000
"""Entries that are looked at, nearest to the top first: about half a second."""

_OURS = ".autotune"

Look = tuple[int, ...]
"""Mode, inode, and for all but folders size and times (ns): a write changes one of them, and nobody can set ctime."""


@dataclass(frozen=True, slots=True)
class Snapshot:
    """What lay in `folders`. `is_whole`: all of it was looked at; else only the first `MOST_FILES` entries."""

    folders: tuple[str, ...]
    looks: Mapping[str, Look]
    is_whole: bool


def snapshot(folders: Iterable[str]) -> Snapshot:
    """Look at everything in `folders` (real paths) but our own folder. Links are not followed."""
    names = tuple(folders)
    looks: dict[str, Look] = {}
    for path, look in _walk(names):
        if len(looks) >= MOST_FILES:
            return Snapshot(names, looks, is_whole=False)
        looks[path] = look
    return Snapshot(names, looks, is_whole=True)


def changed(before: Snapshot) -> tuple[str, ...]:
    """The paths that were made, changed or deleted since `before`; of a new folder only itself."""
    after = snapshot(before.folders)
    differing = [path for path, look in after.looks.items() if before.looks.get(path) != look]
    if before.is_whole and after.is_whole:
        differing += [path for path in before.looks if path not in after.looks]
    else:
        # Beyond the limit nobody looked before: only what was seen then can be told to have changed.
        differing = [path for path in differing if path in before.looks]
        differing += [path for path in before.looks if not os.path.lexists(path)]
    found = set(differing)
    return tuple(sorted(path for path in found if os.path.dirname(path) not in found))


def _walk(folders: Iterable[str]) -> Iterator[tuple[str, Look]]:
    todo = deque(folders)
    seen: set[str] = set()
    while todo:
        folder = todo.popleft()
        if folder in seen:
            continue
        seen.add(folder)
        try:
            entries = list(os.scandir(folder))
        except OSError:
            continue
        for entry in entries:
            if entry.name == _OURS:
                continue
            try:
                about = entry.stat(follow_symlinks=False)
            except OSError:
                continue
            if S_ISDIR(about.st_mode):
                todo.append(entry.path)
                yield entry.path, (about.st_mode, about.st_ino)
            else:
                yield entry.path, (about.st_mode, about.st_ino, about.st_size, about.st_mtime_ns, about.st_ctime_ns)
