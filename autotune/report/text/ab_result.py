"""What an A/B measurement showed, as `verify` and `tune` print it, and what one is going to take."""

from __future__ import annotations

import math
from collections.abc import Iterator

from autotune.model.verified import LossComparison, LossVerdict, Memory, Verdict, Verified
from autotune.report.gains import format_interval
from autotune.report.text.layout import StyledLine, paragraph
from autotune.report.units import duration, money, percent, size, step_time

_SAMENESS = {
    LossVerdict.IDENTICAL: "identical",
    LossVerdict.CLOSE: "equal within rounding",
    LossVerdict.ALIKE: "similar",
    LossVerdict.DIFFERENT: "DIFFERENT",
    LossVerdict.NOT_COMPARED: "not compared",
}


def plan(schedule_seconds: float, num_starts: int, spent_s: float, price: float | None) -> str:
    """The runs that a measurement is going to make and their time, in one line."""
    cost = f", {money((schedule_seconds + spent_s) / 3600 * price)} in all" if price is not None else ""
    half = num_starts // 2
    return f"{num_starts} runs, {half} per side, interleaved (A B B A ...), about {duration(schedule_seconds)}{cost}"


def lines(verified: Verified, width: int, advice: str = "") -> Iterator[StyledLine]:
    """A paragraph each: the step, the clock, the losses, the memory, and the speed that was predicted.

    `advice` says how losses could be compared that were not.
    """
    yield from paragraph("Step", _step(verified), width)
    yield from paragraph("Clock", verified.worth, width)
    yield from paragraph("Losses", f"{_losses(verified.losses)}{advice}", width)
    yield from paragraph("Memory", _memory(verified.memory), width)
    yield from paragraph("Predicted", _prediction(verified), width)


def _step(verified: Verified) -> str:
    before, after = map(step_time, verified.step_ms)
    scaled = "; the sides have different batch sizes: the speedup is per sample" if verified.is_per_sample else ""
    return f"{before} -> {after} (medians of {len(verified.schedule.order) // 2} runs each){scaled}"


def _losses(losses: LossComparison) -> str:
    steps = f" over {losses.steps} steps" if losses.steps else ""
    return f"{_SAMENESS[losses.sameness]}{steps}: {losses.why}"


def _memory(memory: Memory) -> str:
    if memory.before is None or memory.after is None:
        return "not measured"
    of = "of the device" if memory.of == "device" else "resident, of all processes"
    change = memory.after / memory.before - 1 if memory.before else 0.0
    return f"{size(memory.before)} -> {size(memory.after)} ({change:+.0%}), peak {of}"


def _prediction(verified: Verified) -> str:
    gain, found = verified.predicted, verified.estimate
    if gain is None:
        return ""
    expected = format_interval(gain)
    if verified.verdict is Verdict.CANNOT_TELL:
        return f"{expected}; not tested"
    # A bound that begins at 1 says only that nothing gets slower.
    least = -math.inf if gain.basis == "bound" and gain.low <= 1 <= found.high else gain.low
    where = "inside" if least <= found.speedup <= gain.high else "outside"
    error = "" if gain.basis == "bound" else f", off by {percent(abs(gain.speedup / found.speedup - 1))}"
    return f"{expected}; measured {where} this range{error}"
