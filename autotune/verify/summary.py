"""From the runs of a verification to its verdict."""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Iterator, Sequence

from autotune.model.verified import Clock, Estimate, LossComparison, Memory, RunResult, Schedule, Verdict, Verified
from autotune.verify import clocks
from autotune.verify.accumulation_scaling import explained
from autotune.verify.estimate import estimate
from autotune.verify.losses import compare
from autotune.verify.schedule import paired
from autotune.verify.sides import Sides
from autotune.verify.thresholds import SAME_SAMPLES
from autotune.verify.verdict import by_interval, verdict


def summarise(
    sides: Sides,
    starts: Sequence[RunResult],
    planned: Schedule,
    seconds: float,
    notes: tuple[str, ...],
    rehearsed: Sequence[RunResult] = (),
    look: int = 1,
) -> Verified:
    """The verification of `sides`; `seconds` is what it took, rehearsals included. `look` is the number of times that
    the runs were judged so far."""
    before, after = paired(starts)
    clock = clocks.clock([*rehearsed, *starts])
    per_sample = _has_other_samples(before, after)
    found = _estimated(before, after, clock, per_sample, look)
    said, why = verdict(found, starts, clock)
    return Verified(
        against=sides.against,
        changes=sides.changes,
        verdict=said,
        why=why,
        estimate=found,
        step_ms=(_median_ms(before, clock), _median_ms(after, clock)),
        is_per_sample=per_sample,
        losses=_losses(sides, before, after),
        memory=_memory(before, after),
        schedule=planned,
        seconds=seconds,
        predicted=sides.predicted,
        beside=sides.beside,
        apply_command=sides.apply_command,
        undo_command=sides.undo_command,
        notes=(*notes, *side_effects((start.escaped, start.kernel_refusal) for start in starts)),
        clock=clock,
        worth=clocks.validity(clock, starts, planned.turns is not None),
    )


def is_conclusive(starts: Sequence[RunResult], rehearsed: Sequence[RunResult], look: int) -> bool:
    """Whether the interval gives a verdict, so that more pairs change nothing."""
    before, after = paired(starts)
    clock = clocks.clock([*rehearsed, *starts])
    found = _estimated(before, after, clock, _has_other_samples(before, after), look)
    return by_interval(found) is not Verdict.CANNOT_TELL


def side_effects(starts: Iterable[tuple[Sequence[str], str]]) -> tuple[str, ...]:
    """Notes on the user's files that runs changed, and on runs whose writes Python hooks isolated instead of the
    kernel. Of each run: the changed files, and why the kernel could not isolate it ("" where it did)."""
    return tuple(_side_effects(list(starts)))


def _side_effects(starts: Sequence[tuple[Sequence[str], str]]) -> Iterator[str]:
    if escaped := dict.fromkeys(path for paths, _ in starts for path in paths):
        yield f"the script changed your files during the measurement: {', '.join(escaped)}"
    if refusal := next((why for _, why in starts if why), ""):
        yield f"Python hooks isolated the script's writes, because the kernel could not ({refusal})"


def _losses(sides: Sides, before: Sequence[RunResult], after: Sequence[RunResult]) -> LossComparison:
    found = compare([one.losses for one in before], [one.losses for one in after], sides.effect)
    return explained(found, before[0].losses, after[0].losses, sides.changes)


def _has_other_samples(before: Sequence[RunResult], after: Sequence[RunResult]) -> bool:
    """Whether the steps of both sides hold other numbers of samples: then the time of a sample is compared."""
    old, new = ([start.samples for start in side if start.samples] for side in (before, after))
    if len(old) != len(before) or len(new) != len(after):
        return False
    return abs(statistics.median(new) / statistics.median(old) - 1) > SAME_SAMPLES


def _estimated(
    before: Sequence[RunResult], after: Sequence[RunResult], clock: Clock, per_sample: bool, look: int
) -> Estimate:
    return estimate(_times(before, per_sample, clock), _times(after, per_sample, clock), look)


def _times(side: Sequence[RunResult], per_sample: bool, clock: Clock) -> list[float]:
    return [clocks.mean_ms(clock, start) / ((start.samples or 1) if per_sample else 1) for start in side]


def _median_ms(side: Sequence[RunResult], clock: Clock) -> float:
    return statistics.median(clocks.mean_ms(clock, start) for start in side)


def _memory(before: Sequence[RunResult], after: Sequence[RunResult]) -> Memory:
    of = "device" if all(start.is_on_device for start in (*before, *after)) else "processes"
    return Memory(of, *map(_median, ([start.memory_bytes for start in side] for side in (before, after))))


def _median(values: Iterable[int | None]) -> int | None:
    known = [value for value in values if value is not None]
    return round(statistics.median(known)) if known else None
