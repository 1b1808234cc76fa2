"""Useful work: what the steps of a candidate hold of the user's own samples, whatever a row of its batches is."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from autotune.model.derived import Derived
from autotune.model.evidence import RUN, Evidence
from autotune.model.verified import Start

REBATCHING = ("data.packing", "data.group_by_length")
"""With these a batch is no longer of the user's own samples: a row holds several, or they are of like length."""

NOT_COUNTED = "its batches are of other samples than your own, and how many useful tokens they hold is not known"


def tokens_per_sample(evidence: Evidence) -> float | None:
    """Tokens without padding of one of the user's own samples; None where the diagnosis could not count them."""
    tokens, samples = (evidence.lookup(RUN, f"step.{name}_per_s") for name in ("useful_tokens", "samples"))
    if not isinstance(tokens, int | float) or not isinstance(samples, int | float) or not samples:
        return None
    return tokens / samples or None


def in_own_samples(start: Start | None, derived: Derived | None, per_sample: float | None) -> Start | None:
    """`start` with its samples counted by the useful tokens, `per_sample` to one; None where they are not known."""
    step = derived.step if derived is not None else None
    if start is None or step is None or not per_sample or not step.useful_tokens_per_s:
        return None
    return replace(start, samples=step.useful_tokens_per_s * step.mean_ms / 1000 / per_sample)


def is_rebatched(names: Iterable[str]) -> bool:
    """Whether only useful tokens can be compared with the user's own, where these settings change."""
    return any(name in REBATCHING for name in names)
