"""What the trials have ruled out: what will not fit in memory, and what always fails."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence

from autotune.model.evidence import Value
from autotune.model.tuned import Candidate, Outcome, Space, Trial

FAILURES = 2
"""So often may a point of an axis fail before it is given up, if it never did well."""

ATTENTION = ("flash_attention_2", "sdpa", "eager")
"""From the least memory to the most."""

MEMORY: Mapping[str, Callable[[Value], float]] = {
    "loader.batch_size": lambda value: _number(value),
    "train.activation_checkpointing": lambda value: not value,
    "train.precision": lambda value: value == "fp32",
    "data.packing": lambda value: bool(value),
    "data.group_by_length": lambda value: bool(value),
    "model.attention": lambda value: ATTENTION.index(value) if value in ATTENTION else 0,
}
"""How much memory of the device a value of a setting takes, compared with the others."""

HOST_MEMORY: Mapping[str, Callable[[Value], float]] = {
    "loader.num_workers": lambda value: _number(value),
    "loader.prefetch_factor": lambda value: _number(value),
}
"""The same of the host's memory, in which a run on the CPU trains as well."""


def excluded(space: Space, trials: Sequence[Trial]) -> Callable[[Candidate], bool]:
    """Whether a candidate need not be tried: it takes at least the memory of one that had too little, or has a failing
    point."""
    ran_out = [_memory(space, trial.candidate) for trial in trials if not fits(space, trial)]
    failing = _failing(space, trials)

    def is_excluded(candidate: Candidate) -> bool:
        needs = _memory(space, candidate)
        too_large = any(all(needs[name] >= other[name] for name in other) for other in ran_out)
        return too_large or any(point in failing for point in enumerate(candidate))

    return is_excluded


def fits(space: Space, trial: Trial) -> bool:
    """Whether the trial kept to the memory; the user's own does, whatever it left free, where it completed."""
    if trial.outcome == Outcome.OUT_OF_MEMORY:
        return False
    limit, used = space.memory_limit_bytes, trial.memory_bytes
    return trial.candidate == space.current or limit is None or used is None or used <= limit


def _memory(space: Space, candidate: Candidate) -> dict[str, float]:
    """What each setting takes; one that a point leaves out takes the least."""
    ranks = MEMORY if space.is_on_device else {**MEMORY, **HOST_MEMORY}
    settings = space.settings(candidate)
    return {name: rank(settings[name]) if name in settings else 0.0 for name, rank in ranks.items()}


def _failing(space: Space, trials: Sequence[Trial]) -> set[tuple[int, int]]:
    """Points, as (axis, point), that failed FAILURES times and never completed; never the user's own."""
    bad = (Outcome.FAILED, Outcome.TIMED_OUT)
    failed = Counter(point for trial in trials if trial.outcome in bad for point in enumerate(trial.candidate))
    well = {point for trial in trials if trial.outcome not in bad for point in enumerate(trial.candidate)}
    return {point for point, count in failed.items() if count >= FAILURES} - well - set(enumerate(space.current))


def _number(value: Value) -> float:
    return float(value) if isinstance(value, int | float) else 0.0
