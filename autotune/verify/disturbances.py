"""What slowed a run but not the others: other work, a CPU quota, heat, files read from the disk."""

from __future__ import annotations

import os
import resource
import statistics
from collections.abc import Iterator, Sequence
from pathlib import Path

from msgspec import Struct

from autotune.model.verified import AFTER, BEFORE, RunResult
from autotune.verify.thresholds import (
    FREE_BYTES_PER_S,
    FULL_SHARE,
    MORE_SLOWED,
    MORE_THROTTLED,
    OTHERS_SHARE,
    SAME_READS,
)

STAT = Path("/proc/stat")
_IDLE, _WAITING, _GUEST = 3, 4, 8
"""Columns of a "cpu" line: idle, waiting for a disk; guests are counted with the user's time too."""

CROWDED = "other work kept the CPUs busy"
THROTTLED = "a CPU quota throttled the script"
SLOWED = "heat or the power limit throttled the GPU"


class CpuReading(Struct, frozen=True):
    """CPU seconds of the whole machine since it began: busy ones, and all."""

    busy_s: float
    total_s: float


def read(stat: Path = STAT) -> CpuReading | None:
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
    return CpuReading((total - ticks[_IDLE] - ticks[_WAITING]) * tick_s, total * tick_s)


def waited_s() -> float:
    """CPU seconds of all descendants that have ended and were waited for."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def shares(
    before: CpuReading | None, after: CpuReading | None, own_s: float | None
) -> tuple[float | None, float | None]:
    """Shares of the CPUs between two readings: busy with other work than our `own_s` CPU seconds, and busy at all."""
    if before is None or after is None or own_s is None or after.total_s <= before.total_s:
        return None, None
    total = after.total_s - before.total_s
    busy = after.busy_s - before.busy_s
    return max(0.0, busy - own_s) / total, busy / total


def is_crowded(start: RunResult) -> bool:
    """Whether other work took CPUs that the training may have needed; False where the system does not tell."""
    if start.others_share is None or start.busy_share is None:
        return False
    return start.busy_share > FULL_SHARE and start.others_share > OTHERS_SHARE


def disturbances(starts: Sequence[RunResult]) -> list[str]:
    """What disturbed each of the runs: CROWDED, THROTTLED or SLOWED; "" where nothing was seen."""
    return [_disturbance(start, [one for one in starts if one.side == start.side]) for start in starts]


def _disturbance(start: RunResult, side: Sequence[RunResult]) -> str:
    if is_crowded(start):
        return CROWDED
    if _exceeds(start.throttled_share, [one.throttled_share for one in side], MORE_THROTTLED):
        return THROTTLED
    return SLOWED if _exceeds(start.slowed_share, [one.slowed_share for one in side], MORE_SLOWED) else ""


def _exceeds(share: float | None, of_side: Sequence[float | None], by: float) -> bool:
    return share is not None and share > min(one for one in of_side if one is not None) + by


def unobservable_load(starts: Sequence[RunResult]) -> Iterator[str]:
    """Disturbances that this system cannot show."""
    if any(start.others_share is None for start in starts):
        yield "whether other work kept the CPUs busy cannot be seen on this system"
    if any(start.is_on_device and start.slowed_share is None for start in starts):
        yield "whether heat or the power limit throttled the GPU cannot be seen (pynvml and its driver tell)"
    if any(start.read_bytes is None for start in starts):
        yield "whether the files came from the page cache cannot be seen"


def is_uneven(starts: Sequence[RunResult]) -> bool:
    """Whether one side read from the disk what the other found in memory; False where the system does not tell.

    The rehearsals leave both sides a warm cache. Data larger than memory is read again and again: then both sides must
    read as much, for each sample where samples are known; otherwise the comparison is invalid.
    """
    if any(start.read_bytes is None for start in starts):
        return False
    by_sample = all(start.samples for start in starts)
    before, after = (_median_read([one for one in starts if one.side == side], by_sample) for side in (BEFORE, AFTER))
    free = FREE_BYTES_PER_S * statistics.median(one.step_ms / 1000 / _size(one, by_sample) for one in starts)
    return abs(before - after) > max(free, SAME_READS * max(before, after))


def _median_read(side: Sequence[RunResult], by_sample: bool) -> float:
    """Bytes of a sample, or of a step."""
    return statistics.median((one.read_bytes or 0) / one.steps / _size(one, by_sample) for one in side)


def _size(start: RunResult, by_sample: bool) -> float:
    return (start.samples or 1) if by_sample else 1
