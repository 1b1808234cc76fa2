"""The training time of a micro-batch of another size, or with less padding: a + b x units, as fitted."""

from __future__ import annotations

import math

from autotune.model.evidence import RUN, Evidence
from autotune.predict.gain_inputs import TRAIN, number

LARGER_ERROR = 0.25
"""Of the speedup: a micro-batch several times as large lies beyond what was tried."""

PADDING_ERROR = 0.15
"""Of the speedup: time is not quite linear in the width of a batch, attention and caches see to that."""

LINE = ("batch_curve.fixed_ms", "batch_curve.per_unit_ms", "batch_curve.units")


def larger_ratio(evidence: Evidence, factor: float) -> float | None:
    """Time of a micro-batch of `factor` times the samples / of today's; None without the fit.

    Where batches are padded to their longest sample, a larger one holds more padding: b x units grows by the share
    that joined batches of the recorded shapes have on top, for each doubling.
    """
    line = [value for name in LINE if (value := number(evidence, RUN, name)) is not None]
    growth = number(evidence, TRAIN, "loader.doubled_growth_share")
    if len(line) < len(LINE) or growth is None:
        return None
    fixed, per_unit, units = line
    now, then = (fixed + per_unit * units * size for size in (1.0, factor * (1 + growth) ** math.log2(factor)))
    return then / now if now > 0 else None


def padding_ratio(evidence: Evidence, subject: str, share: str, left: str) -> float | None:
    """Time of a micro-batch with the padding of fact `left` / with that of `share`; None where nothing was fitted.

    Where half the width was tried it is the curve through that, a whole width and the part that every micro-batch
    has: a + b w + c w^2, for attention grows with the square. What does not bend like that is a straight line, and what
    bends more is noise: no part of a narrower batch takes longer, and none less than its square.
    """
    fixed, width = number(evidence, RUN, "batch_curve.fixed_share"), tokens_ratio(evidence, subject, share, left)
    if fixed is None or width is None:
        return None
    half = number(evidence, RUN, "batch_curve.narrow_ratio")
    if half is None:
        return fixed + (1 - fixed) * width
    square = min(1 - fixed, max(0.0, 2 + 2 * fixed - 4 * half))
    linear = 1 - fixed - square if square else min(1 - fixed, max(0.0, 2 * (1 - half)))
    return 1 - linear * (1 - width) - square * (1 - width**2)


def tokens_ratio(evidence: Evidence, subject: str, share: str, left: str) -> float | None:
    """Tokens of a micro-batch with the padding of fact `left` / with that of `share`: useful ones stay."""
    now, then = number(evidence, subject, share), number(evidence, subject, left)
    return None if now is None or then is None or then >= 1 else (1 - now) / (1 - then)
