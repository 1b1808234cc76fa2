"""What `autotune verify` prints: the verdict with its interval, the losses, the memory, what was not tried."""

from __future__ import annotations

import math
from collections.abc import Iterator

from autotune.model.verified import Clock, LossComparison, LossVerdict, Memory, Resumed, TimeSlicing, Verdict, Verified
from autotune.report.gains import format_interval
from autotune.report.text.footer import wrap_command
from autotune.report.text.layout import MIN_WIDTH, StyledLine, paragraph, printed, wrap
from autotune.report.units import duration, literal, money, percent, size, step_time

_VERDICTS = {
    Verdict.FASTER: ("Faster", "apply"),
    Verdict.SLOWER: ("Slower", "bad"),
    Verdict.NO_DIFFERENCE: ("No difference", "heading"),
    Verdict.CANNOT_TELL: ("Cannot tell", "decide"),
}
_CLOCKS = {
    Clock.WALL: "wall-clock time",
    Clock.CPU: "CPU time of the training thread",
    Clock.LOADER: "CPU time of the loader's workers",
}
_SAMENESS = {
    LossVerdict.IDENTICAL: "identical",
    LossVerdict.CLOSE: "equal within rounding",
    LossVerdict.ALIKE: "similar",
    LossVerdict.DIFFERENT: "DIFFERENT",
    LossVerdict.NOT_COMPARED: "not compared",
}
_RESUMED = {Resumed.OK: "ok", Resumed.FAILED: "FAILED", Resumed.NOT_TRIED: "not tried"}


def render(verified: Verified, colour: bool, width: int, resume: str) -> str:
    """The verification as text; `resume` is the command that goes on with it."""
    width = max(MIN_WIDTH, width)
    return printed(_lines(verified, width, resume), colour, width)


def plan(schedule_seconds: float, num_starts: int, spent_s: float, price: float | None) -> str:
    """What is going to be spent, in one line."""
    cost = f", {money((schedule_seconds + spent_s) / 3600 * price)} in all" if price is not None else ""
    half = num_starts // 2
    return f"{num_starts} runs, {half} per side, interleaved (A B B A ...), about {duration(schedule_seconds)}{cost}"


def measured(verified: Verified, width: int, advice: str = "") -> Iterator[StyledLine]:
    """What was measured, a paragraph each: the step, the losses, the memory, and the speed that was predicted.

    `advice` says how losses could be compared that were not.
    """
    yield from paragraph("Step", _step(verified), width)
    yield from paragraph("Clock", verified.worth, width)
    yield from paragraph("Losses", f"{_losses(verified.losses)}{advice}", width)
    yield from paragraph("Memory", _memory(verified.memory), width)
    yield from paragraph("Predicted", _predicted(verified), width)


def _lines(verified: Verified, width: int, resume: str) -> Iterator[StyledLine]:
    yield from wrap(f"autotune verify: {verified.against}", width, rest="  ")
    if verified.beside:
        yield from wrap(verified.beside, width, first="  ", rest="    ")
    for change in verified.changes:
        old, new = literal(change.old, ""), literal(change.new, "")
        yield from wrap(f"{change.setting}: {old} -> {new} ({change.effect.value})", width, first="  ", rest="    ")
    yield StyledLine("")
    text, style = _verdict(verified)
    yield from (StyledLine(line.text, style) for line in wrap(text, width, rest="  "))
    yield from measured(verified, width, _advice(verified.losses))
    yield from paragraph("Resume", f"{_RESUMED[verified.resume.result]}: {verified.resume.why}", width)
    for note in verified.notes:
        yield from paragraph("Note", note, width)
    yield from paragraph("Cost", _cost(verified), width)
    if verified.verdict is Verdict.CANNOT_TELL:
        yield from wrap_command("Next", resume, "adds pairs to this result", 0, width)


def _verdict(verified: Verified) -> tuple[str, str]:
    found = verified.estimate
    word, style = _VERDICTS[verified.verdict]
    speedup = f"{found.speedup:.2f}x ({found.low:.2f} to {found.high:.2f}, 95 %)"
    pairs = f"{len(verified.schedule.order) // 2} pairs, {_CLOCKS[verified.clock]}"
    return f"{word}: {speedup}, {pairs}{f'; {verified.why}' if verified.why else ''}.", style


def _step(verified: Verified) -> str:
    before, after = map(step_time, verified.step_ms)
    scaled = "; the sides have different batch sizes: the speedup is per sample" if verified.is_per_sample else ""
    return f"{before} -> {after} (medians of {len(verified.schedule.order) // 2} runs each){scaled}"


def _losses(losses: LossComparison) -> str:
    steps = f" over {losses.steps} steps" if losses.steps else ""
    return f"{_SAMENESS[losses.sameness]}{steps}: {losses.why}"


def _advice(losses: LossComparison) -> str:
    return f"; --loss-steps {losses.more_steps} or more" if losses.more_steps is not None else ""


def _memory(memory: Memory) -> str:
    if memory.before is None or memory.after is None:
        return "not measured"
    of = "of the device" if memory.of == "device" else "resident, of all processes"
    change = memory.after / memory.before - 1 if memory.before else 0.0
    return f"{size(memory.before)} -> {size(memory.after)} ({change:+.0%}), peak {of}"


def _predicted(verified: Verified) -> str:
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


def _cost(verified: Verified) -> str:
    planned = verified.schedule
    starts = len(planned.order)
    resumed = "" if verified.resume.result is Resumed.NOT_TRIED else ", a save and a resume"
    return (
        f"{starts} runs, 2 rehearsals{resumed}, {duration(verified.seconds)}; each measured {planned.steps} steps "
        f"after {planned.warmup} of warm-up{_turns(planned.turns)}; the probe ran on both sides"
    )


def _turns(turns: TimeSlicing | None) -> str:
    return (
        f"; the two runs of a pair alternated in slices of {turns.turn_s * 1000:.0f} ms, one paused at a time"
        if turns
        else ""
    )
