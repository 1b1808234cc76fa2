"""What `autotune tune` prints: what won and by how much, every trial with its outcome, what was not searched, cost."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Sequence

from autotune.model.patch import PatchChange
from autotune.model.rule import Effect
from autotune.model.tuned import Outcome, SearchTrial, SkippedSetting, Space, Tuned
from autotune.model.verified import LossVerdict, Verdict, Verified
from autotune.report import next_commands
from autotune.report.gains import format_gain
from autotune.report.labels import assignments
from autotune.report.text import ab_result
from autotune.report.text.layout import MIN_WIDTH, StyledLine, cells, pad, paragraph, to_text, wrap, wrap_command
from autotune.report.units import duration, literal, money, size, step_time

OUTCOMES = {
    Outcome.COMPLETED: "",
    Outcome.OUT_OF_MEMORY: "out of memory",
    Outcome.FAILED: "failed",
    Outcome.TIMED_OUT: "timed out",
    Outcome.PRUNED: "stopped early",
}


def render(tuned: Tuned, colour: bool, width: int) -> str:
    """The search in lines of at most `width` columns (MIN_WIDTH at least)."""
    width = max(MIN_WIDTH, width)
    return to_text(_lines(tuned, width), colour, width)


def _lines(tuned: Tuned, width: int) -> Iterator[StyledLine]:
    noun = "trial" if len(tuned.trials) == 1 else "trials"
    yield StyledLine(f"autotune tune: {len(tuned.trials)} {noun}, {duration(tuned.spent_s)}", "heading")
    yield StyledLine("")
    yield from _verdict(tuned, width)
    if tuned.verified is not None:
        yield from ab_result.lines(tuned.verified, width)
    for note in dict.fromkeys((*(tuned.verified.notes if tuned.verified else ()), *tuned.side_effects)):
        yield from paragraph("Note", note, width)
    if tuned.trials:
        yield StyledLine("")
        yield from _table(tuned, width)
    yield StyledLine("")
    yield from _settings_by_reason("Not searched", tuned.space.left_out, width)
    yield from _settings_by_reason("Left unchanged", tuned.dropped, width)
    if tuned.by_hand:
        yield StyledLine("To change by hand; not confirmed:")
        for change in tuned.by_hand:
            yield from _change(change, width)
    yield from _untried_findings(tuned, width)
    yield from paragraph("Stopped", tuned.stopped, width)
    yield from paragraph("Cost", cost(tuned), width)
    for one in next_commands.of_tuned(tuned):
        yield StyledLine("")
        yield from wrap_command("Next", one.command, one.why, 26, width)


def headline(tuned: Tuned) -> tuple[str, str]:
    """What won and by how much, or to keep what there is and why; and its style."""
    verified = tuned.verified
    if not tuned.best or verified is None:
        return _no_winner(tuned), "heading"
    found = verified.estimate
    best, style, losses = _best(tuned.space, verified)
    speed = f"{found.speedup:.2f}x as fast as the baseline"
    return f"{best}: {speed}, 95 % interval {found.low:.2f} to {found.high:.2f}{losses}.", style


def _verdict(tuned: Tuned, width: int) -> Iterator[StyledLine]:
    text, style = headline(tuned)
    yield from (StyledLine(line.text, style) for line in wrap(text, width, rest="  "))
    verified = tuned.verified
    if not tuned.best or verified is None:
        return
    for change in verified.changes:
        yield from _change(change, width)
    if _is_by_hand(verified):
        yield StyledLine("`autotune apply` writes none of it: set it yourself.")


def _best(space: Space, verified: Verified) -> tuple[str, str, str]:
    """How the headline begins, its style, and what it says of losses that could not be compared."""
    if verified.losses.sameness is not LossVerdict.NOT_COMPARED:
        return "Best", "apply", ""
    losses = f"; losses not compared: {verified.losses.why}"
    same = [change.setting for change in verified.changes if change.effect is not Effect.ALTERING]
    if space.touches_learning(same):
        return "Best, if it learns the same", "decide", losses
    return "Best", "apply", losses


def _change(change: PatchChange, width: int) -> Iterator[StyledLine]:
    old, new = literal(change.old, ""), literal(change.new, "")
    gain = f", {change.gain}" if change.gain else ""
    yield from wrap(f"{change.setting}: {old} -> {new} ({change.effect}{gain})", width, first="  ", rest="    ")
    if change.by_hand:
        yield from wrap(f"by hand: {change.by_hand}", width, first="    ", rest="    ")


def _untried_findings(tuned: Tuned, width: int) -> Iterator[StyledLine]:
    """What was not tried, with its rules and the gain that is expected of it."""
    if not tuned.beyond:
        return
    yield StyledLine("Found by the diagnosis and not tried; gains are relative to the baseline:", "decide")
    for found in tuned.beyond:
        text = f"{' '.join(found.rules)}: {found.message} ({format_gain(found.gain)})"
        yield from wrap(text, width, first="  ", rest="    ")
    if tuned.diagnosed:
        yield from wrap_command("", f"autotune report {shlex.quote(tuned.diagnosed)}", "what to do about it", 26, width)


def _is_by_hand(verified: Verified | None) -> bool:
    """Whether all that was proven is a person's to write."""
    return verified is not None and all(change.by_hand for change in verified.changes)


def _no_winner(tuned: Tuned) -> str:
    """What to do where nothing won, and why."""
    own = [trial for trial in tuned.trials if trial.candidate == tuned.space.current]
    if tuned.notes and own and all(trial.outcome is Outcome.OUT_OF_MEMORY for trial in own):
        found = "; ".join(tuned.notes)
        return f"{found[0].upper()}{found[1:]}."
    if tuned.notes:
        again = "To confirm it, run the same command with --resume"
        return f"Keep what you have for now: {'; '.join(tuned.notes)}. {again}."
    return f"Keep what you have: {_why_no_winner(tuned)}."


def _why_no_winner(tuned: Tuned) -> str:
    verified = tuned.verified
    if verified is None:
        lost = ", ".join(tuned.other_losses)
        back = f"faster changes were dropped for their losses ({lost}), and nothing else was faster" if lost else ""
        return back or ("no candidate was faster" if tuned.trials else tuned.stopped)
    found = verified.estimate
    against = f"the best of the trials was {found.speedup:.2f}x ({found.low:.2f} to {found.high:.2f})"
    other = "its losses differ from the baseline" if verified.verdict is Verdict.FASTER else ""
    why = f"; {verified.why or other}" if verified.why or other else ""
    return f"{against} in the A/B confirmation against the baseline{why}"


def _table(tuned: Tuned, width: int) -> Iterator[StyledLine]:
    """Every trial: step time, speed relative to the baseline, changes, and the reason if it failed."""
    base = base_speed(tuned)
    rows = [row(trial, base) for trial in tuned.trials]
    columns = [max(map(cells, column)) for column in zip(HEADS, *rows, strict=True)]
    yield StyledLine(f"Trial  {_row(HEADS, columns)}  settings")
    for trial, values in zip(tuned.trials, rows, strict=True):
        first = f"{pad(str(trial.number), 5)}  {_row(values, columns)}  "
        lost = f" -- {OUTCOMES[trial.outcome]}: {trial.error}" if trial.outcome is not Outcome.COMPLETED else ""
        settings = assignments(tuned.space.changes(trial.candidate))
        yield from wrap(f"{settings}{lost}", width, first=first, rest=" " * min(cells(first), width // 2))


def _row(values: Sequence[str], columns: Sequence[int]) -> str:
    return "  ".join(value.rjust(column) for value, column in zip(values, columns, strict=True))


HEADS = ("step", "speedup", "expected", "memory")


def base_speed(tuned: Tuned) -> float | None:
    """Samples per second of the user's own configuration; None where no trial of it was completed."""
    of_own = (trial.samples_per_s for trial in tuned.trials if trial.candidate == tuned.space.current)
    own = [speed for speed in of_own if speed]
    return sum(own) / len(own) if own else None


def row(trial: SearchTrial, base: float | None) -> tuple[str, ...]:
    """A trial below HEADS, "-" where something is unknown."""
    return _time(trial), _speedup(trial, base), _forecast(trial), _peak(trial)


def _time(trial: SearchTrial) -> str:
    return step_time(trial.step_ms) if trial.step_ms is not None else "-"


def _speedup(trial: SearchTrial, base: float | None) -> str:
    return f"{trial.samples_per_s / base:.2f}x" if trial.samples_per_s and base else "-"


def _forecast(trial: SearchTrial) -> str:
    return f"{trial.forecast:.2f}x" if trial.forecast is not None else "-"


def _peak(trial: SearchTrial) -> str:
    return size(trial.memory_bytes) if trial.memory_bytes is not None else "-"


def _settings_by_reason(head: str, left: tuple[SkippedSetting, ...], width: int) -> Iterator[StyledLine]:
    """Settings by the reason that they share."""
    by_reason: dict[str, list[str]] = {}
    for one in left:
        by_reason.setdefault(one.why, []).append(one.setting)
    if by_reason:
        yield StyledLine(f"{head}:")
    for why, names in by_reason.items():
        yield from wrap(f"{', '.join(names)}: {why}", width, first="  ", rest="    ")


def cost(tuned: Tuned) -> str:
    """What the search took, and after how many steps it pays off."""
    price = tuned.price_per_hour
    paid = f" ({money(tuned.spent_s / 3600 * price)})" if price is not None else ""
    probes = f"of which the diagnosis and its probes {duration(tuned.probes_s)}"
    return f"the search took {duration(tuned.spent_s)}{paid}, {probes}{_break_even(tuned)}"


def _break_even(tuned: Tuned) -> str:
    price = tuned.price_per_hour
    saved_ms = _saved_ms(tuned.verified) if tuned.best else 0.0
    if saved_ms <= 0 or tuned.verified is None:
        return ""
    share = saved_ms / tuned.verified.step_ms[0]
    steps = tuned.spent_s * 1000 / saved_ms
    hourly = f", {money(price * share)}" if price is not None else ""
    return (
        f"; it saves {step_time(saved_ms)} a step, {duration(3600 * share)}{hourly} of each hour that you now train: "
        f"pays off after {steps:,.0f} steps"
    )


def _saved_ms(verified: Verified | None) -> float:
    """A step as long as it was, less what the same work takes now."""
    return verified.step_ms[0] * (1 - 1 / verified.estimate.speedup) if verified is not None else 0.0
