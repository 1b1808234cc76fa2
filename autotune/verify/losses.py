"""Whether both sides learn the same: their losses, compared step by step as the effect of the change demands."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence

from autotune.model.rule import Effect
from autotune.model.verified import LossComparison, LossVerdict
from autotune.verify.student import quantile
from autotune.verify.thresholds import LEAST_LOSSES, LOSS_LEVEL, MOST_TIMES, MOST_WIDTH, NUM_BLOCKS, TOLERANCE

Series = Sequence[float | None]


def compare(before: Sequence[Series], after: Sequence[Series], effect: Effect | None) -> LossComparison:
    """Compares the losses of all runs of both sides; `effect` is the gravest of the changes, None if unknown.

    Bit-identical losses are looked for first. An exact change must leave them so, if runs of the same files are. After
    any other change all runs must agree within the tolerance, or in distribution.
    """
    steps = min((len(one) for one in (*before, *after)), default=0)
    cut = [[list(one[:steps]) for one in side] for side in (before, after)]
    if not steps or any(value is None for side in cut for one in side for value in one):
        return LossComparison(LossVerdict.NOT_COMPARED, 0, "no unscaled scalar loss was seen")
    known = [[[value for value in one if value is not None] for one in side] for side in cut]
    if all(_identical(known[0][0], one) for side in known for one in side):
        return LossComparison(LossVerdict.IDENTICAL, steps, "bit-identical in every step of all runs")
    if effect is Effect.EXACT:
        return _not_exact(known, steps)
    worst = max(_apart(known[0][0], side) for side in known)
    if worst <= TOLERANCE:
        why = f"at most {worst:.1e} apart, relative; {TOLERANCE:g} is what other rounding may become in {steps} steps"
        return LossComparison(LossVerdict.CLOSE, steps, why)
    if all(_agrees(side) for side in known):
        return _of_steps(known[0][0], known[1][0], steps)
    return _of_runs(known, steps)


def _identical(one: Sequence[float], other: Sequence[float]) -> bool:
    """The same bits; a NaN is as good as another."""
    return all(a == b or (math.isnan(a) and math.isnan(b)) for a, b in zip(one, other, strict=True))


def _repeats(side: Sequence[Sequence[float]]) -> bool:
    """Whether all runs of the same files have identical losses: then a difference comes from the change."""
    return len(side) > 1 and all(_identical(side[0], one) for one in side[1:])


def _agrees(side: Sequence[Sequence[float]]) -> bool:
    """Whether all runs of the same files have the same random draws, and differ at most by rounding."""
    return len(side) > 1 and _apart(side[0], side[1:]) <= TOLERANCE


def _apart(one: Sequence[float], others: Sequence[Sequence[float]]) -> float:
    """The largest relative difference of any step of `one` from that of `others`."""
    return max(_relative(a, b) for other in others for a, b in zip(one, other, strict=True))


def _not_exact(known: list[list[list[float]]], steps: int) -> LossComparison:
    """The verdict on an exact change whose runs differ. If runs of the same files differ too, it is none: chance."""
    before, after = known[0][0], known[1][0]
    is_far = _agrees(known[0]) and all(_apart(one, known[0]) > TOLERANCE for one in known[1])
    if not is_far and (not _repeats(known[0]) or any(_identical(before, one) for one in known[1])):
        why = "losses of the same files differ from run to run: fix the script's seeds"
        return LossComparison(LossVerdict.NOT_COMPARED, steps, why)
    at = next(step for step, (a, b) in enumerate(zip(before, after, strict=True)) if not _identical([a], [b]))
    why = f"the change is classified as exact, but step {at + 1} has {after[at]:.9g} instead of {before[at]:.9g}"
    return LossComparison(LossVerdict.DIFFERENT, steps, why)


def _relative(one: float, other: float) -> float:
    if _identical([one], [other]):
        return 0.0
    if not (math.isfinite(one) and math.isfinite(other)):
        return math.inf
    return abs(one - other) / max(abs(one), abs(other))


def _of_steps(before: Sequence[float], after: Sequence[float], steps: int) -> LossComparison:
    """One series a side: the mean difference over blocks of steps, as neighbouring steps are not independent."""
    if not all(map(math.isfinite, (*before, *after))):
        return LossComparison(LossVerdict.DIFFERENT, steps, "a loss of one side is not finite")
    if steps < LEAST_LOSSES:
        return _too_few(steps)
    differences = [b - a for a, b in zip(before, _capped(after, before), strict=True)]
    size = steps // NUM_BLOCKS
    blocks = [statistics.fmean(differences[size * at : size * (at + 1)]) for at in range(NUM_BLOCKS)]
    half = quantile(LOSS_LEVEL, NUM_BLOCKS - 1) * statistics.stdev(blocks) / math.sqrt(NUM_BLOCKS)
    return _told(statistics.fmean(blocks), half, statistics.fmean(map(abs, before)), steps, "steps")


def _of_runs(known: list[list[list[float]]], steps: int) -> LossComparison:
    """The script has other random draws in every run: the mean loss of a run is one observation."""
    if not all(math.isfinite(loss) for side in known for one in side for loss in one):
        return LossComparison(LossVerdict.DIFFERENT, steps, "a loss of one run is not finite")
    usual = [loss for one in known[0] for loss in one]
    means = [[statistics.fmean(_capped(one, usual)) for one in side] for side in known]
    if steps < LEAST_LOSSES or min(map(len, means)) < 2:
        return _too_few(steps)
    size = min(map(len, means))
    error = math.sqrt(sum(statistics.variance(side) / len(side) for side in means))
    difference = statistics.fmean(means[1]) - statistics.fmean(means[0])
    half = quantile(LOSS_LEVEL, 2 * size - 2) * error
    return _told(difference, half, abs(statistics.fmean(means[0])), steps, "runs")


def _capped(losses: Sequence[float], usual: Sequence[float]) -> list[float]:
    most = MOST_TIMES * max(map(abs, usual))
    return [max(-most, min(most, loss)) for loss in losses]


def _told(difference: float, half: float, scale: float, steps: int, of: str) -> LossComparison:
    share, width = (value / scale if scale else math.inf for value in (difference, half))
    words = f"the mean differs by {share:+.1%} +-{width:.1%} (99 % interval over {of})"
    if abs(difference) > half:
        return LossComparison(LossVerdict.DIFFERENT, steps, words)
    if width > MOST_WIDTH:
        return LossComparison(LossVerdict.NOT_COMPARED, steps, f"{words}: too wide to tell", 2 * steps)
    return LossComparison(LossVerdict.ALIKE, steps, f"{words}: no difference beyond random draws")


def _too_few(steps: int) -> LossComparison:
    why = f"{steps} steps are too few to compare random draws"
    return LossComparison(LossVerdict.NOT_COMPARED, steps, why, LEAST_LOSSES)
