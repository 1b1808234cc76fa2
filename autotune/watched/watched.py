"""watch: from the state files of watched runs to what they are doing now. Nothing is started and nothing is changed."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from pathlib import Path

import msgspec

from autotune import machine, reading
from autotune.collect import artefacts
from autotune.errors import UsageError
from autotune.model.watched import WatchedProcess, WatchedRow, WatchedRuns

FOLDERS = Path(".autotune", "watch")
"""In a project: a folder for each watched run."""

STATES = "state-*.json"
MOST_BYTES = 4_000_000
STALE_S = 120.0
"""A process that cannot be asked, and has given no sign for so long, may be gone."""

MOST_RUNS = 10
"""Runs that are over are shown up to so many, the newest."""


def watched(place: Path | None, *, cwd: Path, now: float | None = None) -> WatchedRuns:
    """The watched runs of a project, of a folder of runs, or one run; of the project of `cwd` where `place` is None.

    Raises UsageError where there is none.
    """
    moment = time.time() if now is None else now
    root = (artefacts.project_root(cwd) / FOLDERS) if place is None else place
    unreadable: dict[str, str] = {}
    runs = [_run(folder, moment, unreadable) for folder in _folders(root)]
    runs = sorted((run for run in runs if run), key=lambda run: min(row.process.began_at for row in run))
    over = [run for run in runs if not any(row.life in ("running", "stale") for row in run)]
    hidden = over[:-MOST_RUNS]
    if not runs and not unreadable:
        raise UsageError("no watched run has left its state here", where=str(root), to_do=_START)
    return WatchedRuns(tuple(row for run in runs if run not in hidden for row in run), unreadable, len(hidden))


_START = "Start one: AUTOTUNE_WATCH=1 python train.py, or: autotune watch -- python train.py"


def _folders(root: Path) -> Iterator[Path]:
    """The folders that may hold states: `root`, those in it, and those of the project that it is."""
    if not root.is_dir():
        return
    yield root
    for above in (root, root / FOLDERS):
        try:
            yield from sorted(path for path in above.iterdir() if path.is_dir() and not path.is_symlink())
        except OSError:
            continue


def _run(folder: Path, now: float, unreadable: dict[str, str]) -> Sequence[WatchedRow]:
    """The processes of one run, by rank and number."""
    rows = []
    for path in sorted(folder.glob(STATES)):
        try:
            process = msgspec.json.decode(reading.read(path, most_bytes=MOST_BYTES), type=WatchedProcess)
        except (OSError, msgspec.MsgspecError) as error:
            unreadable[str(path)] = str(error)
            continue
        rows.append(_row(folder, process, now))
    return sorted(rows, key=lambda row: (row.process.rank, row.process.pid))


def _row(folder: Path, process: WatchedProcess, now: float) -> WatchedRow:
    seen_s = max(0.0, now - process.seen_at)
    idle_s = max(0.0, now - process.stepped_at) if process.stepped_at is not None else None
    if process.state != "running":
        return WatchedRow(folder, process, process.state, seen_s, idle_s)
    who = {"pid": process.pid, "process_start": process.process_start, "host": process.host}
    if machine.is_gone(who):
        return WatchedRow(folder, process, "killed", seen_s, idle_s)
    can_be_asked = machine.is_here(who) and process.process_start is not None
    is_silent = seen_s > STALE_S and not can_be_asked
    return WatchedRow(folder, process, "stale" if is_silent else "running", seen_s, idle_s)
