"""A look at the project's files before and after a run: what really changed, whatever was meant to prevent it."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from stat import S_ISDIR

from msgspec import Struct

from autotune.collect.overlay_plan import SCRATCH

MOST_FILES = 50_000
"""Entries that are looked at, nearest to the top first: about half a second."""

_OURS = (".autotune", SCRATCH)
"""How the names of our own folders begin."""

_OBJECTS = os.path.join(".git", "objects")
"""Git's own store: a commit writes into it, in this project or in a clone that shares it by hard links."""

Look = tuple[int, ...]
"""Mode, inode, and for all but folders size and times (ns): a write changes one of them, and nobody can set ctime."""


class Snapshot(Struct, frozen=True):
    """What lay in `folders`, without what is in `left_out`.

    `is_whole`: all of it was looked at; else only the first `MOST_FILES` entries.
    """

    folders: tuple[str, ...]
    looks: Mapping[str, Look]
    is_whole: bool
    left_out: frozenset[str] = frozenset()


def snapshot(folders: Iterable[str], left_out: Iterable[str] = ()) -> Snapshot:
    """Look at everything in `folders` (real paths) but our own folders, git's objects and `left_out` (real paths).
    Links are not followed."""
    names, without = tuple(folders), frozenset(left_out)
    looks: dict[str, Look] = {}
    for path, look in _walk(names, without):
        if len(looks) >= MOST_FILES:
            return Snapshot(names, looks, is_whole=False, left_out=without)
        looks[path] = look
    return Snapshot(names, looks, is_whole=True, left_out=without)


def changed(before: Snapshot) -> tuple[str, ...]:
    """The paths that were made, changed or deleted since `before`; of a new folder only itself."""
    after = snapshot(before.folders, before.left_out)
    differing = [path for path, look in after.looks.items() if before.looks.get(path) != look]
    if before.is_whole and after.is_whole:
        differing += [path for path in before.looks if path not in after.looks]
    else:
        # Beyond the limit nobody looked before: only what was seen then can be told to have changed.
        differing = [path for path in differing if path in before.looks]
        differing += [path for path in before.looks if not os.path.lexists(path)]
    found = set(differing)
    return tuple(sorted(path for path in found if os.path.dirname(path) not in found))


def _walk(folders: Iterable[str], left_out: frozenset[str]) -> Iterator[tuple[str, Look]]:
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
            if entry.name.startswith(_OURS) or entry.path in left_out or entry.path.endswith(_OBJECTS):
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
