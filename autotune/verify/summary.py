"""From the starts of a verification to what they say."""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Sequence

from autotune.model.verified import Memory, Schedule, Start, Verified
from autotune.verify.estimate import estimate
from autotune.verify.losses import compare
from autotune.verify.schedule import paired
from autotune.verify.sides import Sides
from autotune.verify.verdict import verdict

_SAME_SAMPLES = 0.01
"""Samples per step that differ by less are the same: the last batch of an epoch is shorter."""


def summarise(
    sides: Sides, starts: Sequence[Start], planned: Schedule, seconds: float, notes: tuple[str, ...]
) -> Verified:
    """The verification of `sides`; `seconds` is what it took, rehearsals included."""
    before, after = paired(starts)
    per_sample = _has_other_samples(before, after)
    found = estimate(_times(before, per_sample), _times(after, per_sample))
    said, why = verdict(found, starts)
    return Verified(
        against=sides.against,
        changes=sides.changes,
        verdict=said,
        why=why,
        estimate=found,
        step_ms=(_median_ms(before), _median_ms(after)),
        is_per_sample=per_sample,
        losses=compare([one.losses for one in before], [one.losses for one in after], sides.effect),
        memory=_memory(before, after),
        schedule=planned,
        seconds=seconds,
        predicted=sides.predicted,
        notes=notes,
    )


def _has_other_samples(before: Sequence[Start], after: Sequence[Start]) -> bool:
    """Whether the steps of both sides hold other numbers of samples: then the time of a sample is compared."""
    old, new = ([start.samples for start in side if start.samples] for side in (before, after))
    if len(old) != len(before) or len(new) != len(after):
        return False
    return abs(statistics.median(new) / statistics.median(old) - 1) > _SAME_SAMPLES


def _times(side: Sequence[Start], per_sample: bool) -> list[float]:
    return [start.step_ms / (start.samples or 1) if per_sample else start.step_ms for start in side]


def _median_ms(side: Sequence[Start]) -> float:
    return statistics.median(start.step_ms for start in side)


def _memory(before: Sequence[Start], after: Sequence[Start]) -> Memory:
    of = "device" if all(start.is_on_device for start in (*before, *after)) else "processes"
    return Memory(of, *map(_median, ([start.memory_bytes for start in side] for side in (before, after))))


def _median(values: Iterable[int | None]) -> int | None:
    known = [value for value in values if value is not None]
    return round(statistics.median(known)) if known else None
