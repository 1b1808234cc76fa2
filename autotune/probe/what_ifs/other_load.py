"""The CPUs that this process may run on, and what other programs take of them meanwhile."""

from __future__ import annotations

import os

from .. import clock

STAT = "/proc/stat"
IDLE, WAITING, GUEST = 3, 4, 8
"""Columns of its lines: idle, waiting for a disk; from GUEST on what is counted before already."""


def usable() -> set[int]:
    """Numbers of the CPUs that this process may run on; of them all where nothing tells."""
    return os.sched_getaffinity(0) if hasattr(os, "sched_getaffinity") else set(range(os.cpu_count() or 1))


def reading() -> tuple[float, float, float] | None:
    """(now, CPU seconds of this process's CPUs, of it and its ended children), in s; None without /proc."""
    try:
        with open(STAT, encoding="ascii") as file:
            rows = [line.split() for line in file if line.startswith("cpu")]
        columns = [[int(column) for column in row[1:]] for row in _own(rows)]
    except (OSError, ValueError):
        return None
    if not columns or min(map(len, columns)) <= WAITING:
        return None
    busy = sum(sum(ticks[:GUEST]) - ticks[IDLE] - ticks[WAITING] for ticks in columns) / os.sysconf("SC_CLK_TCK")
    return clock.now() / 1e9, busy, sum(os.times()[:4])


def _own(rows: list[list[str]]) -> list[list[str]]:
    """The rows of the CPUs in the affinity mask; that of them all where some have none: a container may renumber."""
    mask = {f"cpu{cpu}" for cpu in usable()}
    own = [row for row in rows if row[0] in mask]
    return own if len(own) == len(mask) else rows[:1]


def cpus(before: tuple[float, float, float] | None) -> float | None:
    """CPUs that others kept busy since reading `before`, on average; None where it cannot be told."""
    after = reading()
    if before is None or after is None or after[0] <= before[0]:
        return None
    wall, busy, own = (later - earlier for earlier, later in zip(before, after))
    return max(0.0, busy - own) / wall
