"""Whether the files of both sides came from the same place: the page cache, or the disk."""

from __future__ import annotations

import statistics
from collections.abc import Sequence

from autotune.model.verified import AFTER, BEFORE, RunResult

FREE_BYTES_PER_S = 2e6
"""Of the window: a disk that reads 100 MB/s does so in 2 % of the time."""

SAME_SHARE = 0.05
"""Sides that read more than that from the disk read the same when they differ by less than this share."""


def is_uneven(starts: Sequence[RunResult]) -> bool:
    """Whether one side had to read from the disk what the other found in memory. Not where the system does not tell.

    The rehearsals leave both sides a warm cache. Data larger than memory is read again and again: then both sides read
    the same, for each sample where that is known, or the comparison is none.
    """
    if any(start.read_bytes is None for start in starts):
        return False
    by_sample = all(start.samples for start in starts)
    before, after = (_median_read([one for one in starts if one.side == side], by_sample) for side in (BEFORE, AFTER))
    free = FREE_BYTES_PER_S * statistics.median(one.step_ms / 1000 / _size(one, by_sample) for one in starts)
    return abs(before - after) > max(free, SAME_SHARE * max(before, after))


def _median_read(side: Sequence[RunResult], by_sample: bool) -> float:
    """Bytes of a sample, or of a step."""
    return statistics.median((one.read_bytes or 0) / one.steps / _size(one, by_sample) for one in side)


def _size(start: RunResult, by_sample: bool) -> float:
    return (start.samples or 1) if by_sample else 1
