"""What `autotune verify` prints: the verdict with its interval, the losses, the memory, what was not tried."""

from __future__ import annotations

from collections.abc import Iterator

from autotune.model.verified import Clock, LossComparison, Resume, Resumed, TimeSlicing, Verdict, Verified
from autotune.report import next_commands
from autotune.report.text import ab_result
from autotune.report.text.layout import MIN_WIDTH, StyledLine, paragraph, to_text, wrap, wrap_command
from autotune.report.units import duration, literal

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
_RESUMED = {Resumed.OK: "ok", Resumed.FAILED: "FAILED", Resumed.NOT_TRIED: "not tried"}


def render(verified: Verified, colour: bool, width: int) -> str:
    """The verification in lines of at most `width` columns (MIN_WIDTH at least)."""
    width = max(MIN_WIDTH, width)
    return to_text(_lines(verified, width), colour, width)


def _lines(verified: Verified, width: int) -> Iterator[StyledLine]:
    yield from wrap(f"autotune verify: {verified.against}", width, rest="  ")
    if verified.beside:
        yield from wrap(verified.beside, width, first="  ", rest="    ")
    for change in verified.changes:
        old, new = literal(change.old, ""), literal(change.new, "")
        yield from wrap(f"{change.setting}: {old} -> {new} ({change.effect.value})", width, first="  ", rest="    ")
    yield StyledLine("")
    text, style = verdict(verified)
    yield from (StyledLine(line.text, style) for line in wrap(text, width, rest="  "))
    yield from ab_result.lines(verified, width, advice(verified.losses))
    yield from paragraph("Resume", resumed(verified.resume), width)
    for note in verified.notes:
        yield from paragraph("Note", note, width)
    yield from paragraph("Cost", cost(verified), width)
    for one in next_commands.of_verified(verified):
        yield from wrap_command("Next", one.command, one.why, 0, width)


def resumed(resume: Resume) -> str:
    """ "ok: ...", "not tried: ..."."""
    return f"{_RESUMED[resume.result]}: {resume.why}"


def verdict(verified: Verified) -> tuple[str, str]:
    """The verdict with its interval, and its style."""
    found = verified.estimate
    word, style = _VERDICTS[verified.verdict]
    speedup = f"{found.speedup:.2f}x ({found.low:.2f} to {found.high:.2f}, 95 %)"
    pairs = f"{len(verified.schedule.order) // 2} pairs, {_CLOCKS[verified.clock]}"
    return f"{word}: {speedup}, {pairs}{f'; {verified.why}' if verified.why else ''}.", style


def advice(losses: LossComparison) -> str:
    """How losses that could not be compared can be; "" where they were."""
    return f"; --loss-steps {losses.more_steps} or more" if losses.more_steps is not None else ""


def cost(verified: Verified) -> str:
    """The runs that it took."""
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
