"""Candidates that the trials rule out: they do not fit in memory, or contain a point that always fails."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence

from autotune.model.evidence import Value
from autotune.model.tuned import Candidate, Outcome, OutOfMemoryNote, SearchTrial, Space

FAILURES = 2
"""A point of an axis that failed so often and never completed is ruled out."""

ATTENTION = ("flash_attention_2", "sdpa", "eager")
"""From the least memory to the most."""

BATCH_SIZE = "loader.batch_size"

Takes = Mapping[str, Callable[[Value], float]]

MEMORY: Takes = {
    BATCH_SIZE: lambda value: _number(value),
    "train.activation_checkpointing": lambda value: not value,
    "train.precision": lambda value: value == "fp32",
    "data.packing": lambda value: bool(value),
    "data.group_by_length": lambda value: bool(value),
    "model.attention": lambda value: ATTENTION.index(value) if value in ATTENTION else 0,
}
"""Rank of a value of a setting by the memory that it takes on the device of the training."""

HOST_MEMORY: Takes = {
    "loader.num_workers": lambda value: _number(value),
    "loader.prefetch_factor": lambda value: _number(value),
}
"""The same for the memory of the host, for training on any device."""

Needs = Mapping[str, float]
Peaks = Mapping[tuple[float, ...], Mapping[float, int]]
"""The other settings that take memory -> the micro-batch -> its peak in bytes."""


def excluded(space: Space, trials: Sequence[SearchTrial]) -> Callable[[Candidate], bool]:
    """Whether a candidate is ruled out: it needs at least as much memory as one that ran out of it, exceeds the limit
    by extrapolation from smaller micro-batches, or has a failing point."""
    ran_out = list({tuple(needs.items()): needs for needs in _ran_out(space, trials)}.values())
    peaks = _peaks(space, trials)
    failing = _failing(space, trials)

    def is_excluded(candidate: Candidate) -> bool:
        needs = _needs(space, candidate, {**MEMORY, **HOST_MEMORY})
        too_large = any(_covers(needs, other) for other in ran_out)
        return too_large or _outgrows(space, needs, peaks) or any(point in failing for point in enumerate(candidate))

    return is_excluded


def fits(space: Space, trials: Sequence[SearchTrial], trial: SearchTrial) -> bool:
    """Whether a trial kept to the memory limit. The baseline does where it completed, even above the limit; then a
    candidate that needs no more memory than the baseline does, too.
    """
    if trial.outcome == Outcome.OUT_OF_MEMORY:
        return False
    if trial.candidate == space.current or not _is_above(space, trial):
        return True
    own, its = (_needs(space, one, _takes(space, trial)) for one in (space.current, trial.candidate))
    return _covers(own, its) and any(one.candidate == space.current and _is_above(space, one) for one in trials)


def _is_above(space: Space, trial: SearchTrial) -> bool:
    limit, used = space.memory_limit_bytes, trial.memory_bytes
    return limit is not None and used is not None and used > limit


def _ran_out(space: Space, trials: Sequence[SearchTrial]) -> Iterator[Needs]:
    """What the trials needed that exceeded the memory, unless a trial that kept to it needed as much."""
    kept = {one.candidate for one in trials if one.outcome == Outcome.COMPLETED and fits(space, trials, one)}
    went_well = {one: _needs(space, one, {**MEMORY, **HOST_MEMORY}) for one in kept}
    for trial in trials:
        if not fits(space, trials, trial):
            needs = _needs(space, trial.candidate, _takes(space, trial))
            if not any(_covers(of, needs) for one, of in went_well.items() if one != trial.candidate):
                yield needs


def _covers(needs: Needs, other: Needs) -> bool:
    """Whether each need is at least the other one."""
    return all(needs[name] >= other[name] for name in other)


def takes_more(space: Space, candidate: Candidate) -> bool:
    """Whether a candidate needs more memory on the device of the training than the baseline."""
    own, its = (_needs(space, one, MEMORY) for one in (space.current, candidate))
    return any(its[name] > own[name] for name in MEMORY)


def _takes(space: Space, trial: SearchTrial) -> Takes:
    """The ranks for the memory that a trial ran out of: by default that of the device of the training."""
    if not space.is_on_device:
        return {**MEMORY, **HOST_MEMORY}
    return HOST_MEMORY if trial.ran_out == OutOfMemoryNote.HOST else MEMORY


def _needs(space: Space, candidate: Candidate, takes: Takes) -> Needs:
    """The rank of each setting; the lowest for a setting that the point leaves out."""
    settings = space.settings(candidate)
    return {name: of(settings[name]) if name in settings else 0.0 for name, of in takes.items()}


def _peaks(space: Space, trials: Sequence[SearchTrial]) -> Peaks:
    """The widest peak of each micro-batch that was measured, by the other settings that take memory."""
    found: dict[tuple[float, ...], dict[float, int]] = {}
    for trial in trials:
        if trial.outcome == Outcome.COMPLETED and trial.memory_bytes is not None:
            needs = _needs(space, trial.candidate, MEMORY if space.is_on_device else {**MEMORY, **HOST_MEMORY})
            of_size = found.setdefault(_others(space, needs), {})
            of_size[needs[BATCH_SIZE]] = max(trial.memory_bytes, of_size.get(needs[BATCH_SIZE], 0))
    return found


def _others(space: Space, needs: Needs) -> tuple[float, ...]:
    """Those of the settings that take memory on the device of the training, but for the micro-batch."""
    names = MEMORY if space.is_on_device else {**MEMORY, **HOST_MEMORY}
    return tuple(needs[name] for name in names if name != BATCH_SIZE)


def _outgrows(space: Space, needs: Needs, every: Peaks) -> bool:
    """Whether a micro-batch is too large: extrapolates the peaks of the two largest that are smaller.

    They are of trials with the same values of all other settings that take memory. A peak is that of the widest batch.
    """
    peaks = every.get(_others(space, needs), {})
    smaller = sorted(size for size in peaks if size < needs[BATCH_SIZE])[-2:]
    if space.memory_limit_bytes is None or len(smaller) < 2:
        return False
    low, high = smaller
    growth = (peaks[high] - peaks[low]) / (high - low)
    return peaks[high] + growth * (needs[BATCH_SIZE] - high) > space.memory_limit_bytes


def _failing(space: Space, trials: Sequence[SearchTrial]) -> set[tuple[int, int]]:
    """Points, as (axis, point), that failed FAILURES times and never completed; never those of the baseline."""
    bad = (Outcome.FAILED, Outcome.TIMED_OUT)
    failed = Counter(point for trial in trials if trial.outcome in bad for point in enumerate(trial.candidate))
    well = {point for trial in trials if trial.outcome not in bad for point in enumerate(trial.candidate)}
    return {point for point, count in failed.items() if count >= FAILURES} - well - set(enumerate(space.current))


def _number(value: Value) -> float:
    return float(value) if isinstance(value, int | float) else 0.0
