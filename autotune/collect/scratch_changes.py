"""What a script wrote and deleted, read from the scratch of the layer that isolated it."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable, Iterator
from pathlib import Path

from msgspec import Struct
from msgspec.structs import replace

from autotune.collect.overlay_plan import SCRATCH, OverlayMount, OverlayPlan, ReplacementFolder

MOST_ROWS = 50

_BYTECODE = "__pycache__"
"""Made by the interpreter, not by the script."""


class FileChange(Struct, frozen=True):
    """`kind` is write (`bytes` is then the size of what was left), delete or mkdir; `path` is the real path."""

    path: str
    kind: str
    bytes: int = 0


def read(plan: OverlayPlan) -> tuple[FileChange, ...]:
    """At most 50 rows: a lone file stands for itself, several of one folder for that folder."""
    return _grouped(list(every(plan)))


def of_hooks(scratch: Iterable[Path]) -> tuple[FileChange, ...]:
    """The same of the scratch folders of the probe's hooks (probe/overlay/layer.py)."""
    changes: list[FileChange] = []
    for folder in scratch:
        changes += _upper(f"{folder}/upper", "")
        changes += _hidden(f"{folder}/gone", f"{folder}/upper", "")
    return _grouped(changes)


def _hidden(gone: str, upper: str, real: str) -> Iterator[FileChange]:
    """What marks in `gone` hide, unless the script made it anew."""
    for entry in _entries(gone):
        path, copy = f"{real}/{entry.name}", f"{upper}/{entry.name}"
        if entry.is_dir(follow_symlinks=False):
            yield from _hidden(entry.path, copy, path)
        elif not os.path.lexists(copy):
            yield FileChange(path, "delete")


def written_folders(plan: OverlayPlan) -> frozenset[str]:
    """The covered folders in which something was changed."""
    overlays = [mount for mount in plan.mounts if isinstance(mount, OverlayMount)]
    return frozenset(mount.lower for mount in overlays if next(_upper(mount.upper, mount.lower), None) is not None)


def every(plan: OverlayPlan) -> Iterator[FileChange]:
    """Each changed path."""
    for mount in plan.mounts:
        if isinstance(mount, OverlayMount):
            yield from _upper(mount.upper, mount.lower)
    covered = {mount.at for mount in plan.mounts}
    for stand_in in plan.stand_ins:
        yield from _stand_in(stand_in, plan, covered)


def _upper(upper: str, real: str) -> Iterator[FileChange]:
    for entry in _entries(upper):
        if entry.name == _BYTECODE or entry.name.startswith(SCRATCH):
            continue
        path = f"{real.rstrip('/')}/{entry.name}"
        about = entry.stat(follow_symlinks=False)
        if stat.S_ISCHR(about.st_mode) and about.st_rdev == 0:
            yield FileChange(path, "delete")
        elif not stat.S_ISDIR(about.st_mode):
            yield FileChange(path, "write", about.st_size if stat.S_ISREG(about.st_mode) else 0)
        else:
            if not os.path.isdir(path):
                yield FileChange(path, "mkdir")
            yield from _upper(entry.path, path)


def _stand_in(stand_in: ReplacementFolder, plan: OverlayPlan, covered: set[str]) -> Iterator[FileChange]:
    """What differs between a stand-in's own entries and those that it was made from."""
    real = stand_in.real.rstrip("/")
    for entry in _entries(stand_in.copy):
        path = f"{real}/{entry.name}"
        if f"{plan.stage}{path}" in covered:
            continue
        about = entry.stat(follow_symlinks=False)
        if stat.S_ISDIR(about.st_mode):
            if not os.path.isdir(path):
                yield FileChange(path, "mkdir")
                yield from _upper(entry.path, path)
        elif not _is_same(about, path):
            yield FileChange(path, "write", about.st_size if stat.S_ISREG(about.st_mode) else 0)
    for entry in _entries(stand_in.real):
        if not entry.name.startswith(SCRATCH) and not os.path.lexists(f"{stand_in.copy}/{entry.name}"):
            yield FileChange(entry.path, "delete")


def _is_same(about: os.stat_result, path: str) -> bool:
    try:
        real = os.lstat(path)
    except OSError:
        return False
    if stat.S_ISLNK(about.st_mode):
        return stat.S_ISLNK(real.st_mode)
    return (about.st_size, about.st_mtime_ns) == (real.st_size, real.st_mtime_ns)


def _entries(folder: str) -> list[os.DirEntry[str]]:
    try:
        return sorted(os.scandir(folder), key=lambda entry: entry.name)
    except OSError:
        return []


def _grouped(rows: list[FileChange]) -> tuple[FileChange, ...]:
    made = {path for row in rows for path in map(str, Path(row.path).parents)}
    kept = [row for row in rows if row.kind != "mkdir" or row.path not in made]
    depth = max((row.path.count("/") for row in kept), default=0)
    while True:
        groups: dict[tuple[str, str], list[FileChange]] = {}
        for row in kept:
            groups.setdefault((str(Path(row.path).parent), row.kind), []).append(row)
        merged = [
            several[0] if len(several) == 1 else FileChange(folder, kind, sum(row.bytes for row in several))
            for (folder, kind), several in sorted(groups.items())
        ]
        if len(merged) <= MOST_ROWS or depth <= 1:
            return tuple(merged[:MOST_ROWS])
        depth -= 1
        kept = [replace(row, path=_cut(row.path, depth)) for row in kept]


def _cut(path: str, depth: int) -> str:
    """The first `depth` names of a path."""
    return "/".join(path.split("/")[: depth + 1])
