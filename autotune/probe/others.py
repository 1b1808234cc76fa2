"""What other programs take of the machine's CPUs meanwhile."""

from __future__ import annotations

import os

from . import clock

STAT = "/proc/stat"
IDLE, WAITING, GUEST = 3, 4, 8
"""Columns of its first line: idle, waiting for a disk; from GUEST on what is counted before already."""


def reading():
    """(now, CPU seconds of the machine, and of this process and its ended children), in s; None without /proc."""
    try:
        with open(STAT, encoding="ascii") as file:
            ticks = [int(column) for column in file.readline().split()[1:]][:GUEST]
    except (OSError, ValueError):
        return None
    if len(ticks) <= WAITING:
        return None
    busy = (sum(ticks) - ticks[IDLE] - ticks[WAITING]) / os.sysconf("SC_CLK_TCK")
    return clock.now() / 1e9, busy, sum(os.times()[:4])


def cpus(before):
    """CPUs that others kept busy since reading `before`, on average; None where it cannot be told."""
    after = reading()
    if before is None or after is None or after[0] <= before[0]:
        return None
    wall, busy, own = (later - earlier for earlier, later in zip(before, after))
    return max(0.0, busy - own) / wall
