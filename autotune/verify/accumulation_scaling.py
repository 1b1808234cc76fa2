"""Losses that differ by the very factor of the accumulation steps: then gradients do, and not by chance."""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Sequence

from msgspec.structs import replace

from autotune.model.patch import PatchChange
from autotune.model.verified import LossComparison, LossVerdict
from autotune.verify.losses import Series
from autotune.verify.thresholds import SAME_FACTOR

SETTING = "train.accumulation_steps"


def explained(found: LossComparison, before: Series, after: Series, changes: Iterable[PatchChange]) -> LossComparison:
    """`found`, with the reason where it is the accumulation; `before` and `after` are the losses of a run of each.

    A step's loss is the sum over its micro-batches, as backward saw them. Trainers that divide each by their number
    keep it; those that do not, or do so twice, have gradients that change with the accumulation steps (transformers
    5 with a model that takes but ignores num_items_in_batch; LLaMA-Factory 0.9.5: both seen with this).
    """
    factor = next((_factor(change) for change in changes if change.setting == SETTING), None)
    if found.sameness is not LossVerdict.DIFFERENT or factor is None:
        return found
    ratio = _ratio(before[: found.steps], after[: found.steps])
    for by, how in ((factor, "adds them up undivided"), (1 / factor, "divides by their number twice")):
        if ratio is not None and abs(ratio / by - 1) < SAME_FACTOR:
            why = f"that is the factor of the accumulation steps: what sums the micro-batches' losses {how}, so that"
            return replace(found, why=f"{found.why}; {why} gradients change with them")
    return found


def _factor(change: PatchChange) -> float | None:
    numbers = [float(value) for value in (change.old, change.new) if isinstance(value, int | float) and value]
    return numbers[1] / numbers[0] if len(numbers) == 2 and numbers[0] != numbers[1] else None


def _ratio(before: Series, after: Series) -> float | None:
    means = [_mean([loss for loss in side if loss is not None]) for side in (before, after)]
    return means[1] / means[0] if means[0] and means[1] else None


def _mean(losses: Sequence[float]) -> float | None:
    return statistics.fmean(losses) if losses else None
