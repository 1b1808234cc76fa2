"""How busy the CPUs of the machine were with other work, from /proc/stat."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

STAT = Path("/proc/stat")
_IDLE, _WAITING, _GUEST = 3, 4, 8
"""Columns of a "cpu" line: idle, waiting for a disk; guests are counted with the user's time too."""


@dataclass(frozen=True, slots=True)
class Reading:
    """CPU seconds of the whole machine since it began: busy ones, and all."""

    busy_s: float
    total_s: float


def read(stat: Path = STAT) -> Reading | None:
    """The counters now; None on a system that has none."""
    try:
        line = stat.read_text(encoding="ascii").partition("\n")[0]
        ticks = [int(column) for column in line.split()[1:]][:_GUEST]
    except (OSError, ValueError):
        return None
    if not line.startswith("cpu ") or len(ticks) <= _WAITING:
        return None
    total = sum(ticks)
    tick_s = 1 / os.sysconf("SC_CLK_TCK")
    return Reading((total - ticks[_IDLE] - ticks[_WAITING]) * tick_s, total * tick_s)


def shares(before: Reading | None, after: Reading | None, own_s: float | None) -> tuple[float | None, float | None]:
    """Shares of the CPUs between two readings: busy with other work than our `own_s` CPU seconds, and busy at all."""
    if before is None or after is None or own_s is None or after.total_s <= before.total_s:
        return None, None
    total = after.total_s - before.total_s
    busy = after.busy_s - before.busy_s
    return max(0.0, busy - own_s) / total, busy / total
