"""Whether both sides learn the same: the losses of each step, compared by what the change says that it does."""

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
    """The losses of all starts of both sides; `effect` is the gravest of the changes, None when nobody said.

    Bit-identical is always looked for first. An exact change has to be so, as far as the
    script's own starts are; after any other all starts have to agree within the tolerance, or by their distribution.
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
    return _of_starts(known, steps)


def _identical(one: Sequence[float], other: Sequence[float]) -> bool:
    """The same bits; a NaN is as good as another."""
    return all(a == b or (math.isnan(a) and math.isnan(b)) for a, b in zip(one, other, strict=True))


def _repeats(side: Sequence[Sequence[float]]) -> bool:
    """Whether all starts of the same files agree: then what differs comes from the change."""
    return len(side) > 1 and all(_identical(side[0], one) for one in side[1:])


def _agrees(side: Sequence[Sequence[float]]) -> bool:
    """Whether all starts of the same files draw the same, and differ by rounding at most."""
    return len(side) > 1 and _apart(side[0], side[1:]) <= TOLERANCE


def _apart(one: Sequence[float], others: Sequence[Sequence[float]]) -> float:
    """The largest relative difference of any step of `one` from that of `others`."""
    return max(_relative(a, b) for other in others for a, b in zip(one, other, strict=True))


def _not_exact(known: list[list[list[float]]], steps: int) -> LossComparison:
    """A change that is said to be exact, of starts that differ: by chance, where those of the same files do so too."""
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


def _of_starts(known: list[list[list[float]]], steps: int) -> LossComparison:
    """The script draws anew at every start: the mean loss of a start is one observation."""
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
    return _told(difference, half, abs(statistics.fmean(means[0])), steps, "starts")


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
