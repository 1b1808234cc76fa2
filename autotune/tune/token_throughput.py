"""Token throughput: the speed of a candidate in samples of the baseline, even if its batches have other samples."""

from __future__ import annotations

from collections.abc import Iterable

from msgspec.structs import replace

from autotune.model.derived import Derived
from autotune.model.evidence import RUN, Evidence
from autotune.model.verified import RunResult

REBATCHING = ("data.packing", "data.group_by_length")
"""With these a batch has other samples: a row contains several of them, or they have similar lengths."""

NOT_COUNTED = "its batches have other samples than the baseline, and their useful tokens are not known"


def tokens_per_sample(evidence: Evidence) -> float | None:
    """Tokens without padding of a sample of the baseline; None where the diagnosis could not count them."""
    tokens, samples = (evidence.lookup(RUN, f"step.{name}_per_s") for name in ("useful_tokens", "samples"))
    if not isinstance(tokens, int | float) or not isinstance(samples, int | float) or not samples:
        return None
    return tokens / samples or None


def in_own_samples(start: RunResult | None, derived: Derived | None, per_sample: float | None) -> RunResult | None:
    """`start` with as many samples as it has useful tokens / `per_sample`; None where these are not known."""
    step = derived.step if derived is not None else None
    if start is None or step is None or not per_sample or not step.useful_tokens_per_s:
        return None
    return replace(start, samples=step.useful_tokens_per_s * step.mean_ms / 1000 / per_sample)


def is_rebatched(names: Iterable[str]) -> bool:
    """Whether a change of these settings makes samples incomparable, so that useful tokens have to be compared."""
    return any(name in REBATCHING for name in names)
