"""Where the time of a step goes: one bar per phase, and the frames behind what no phase explains."""

from __future__ import annotations

from collections.abc import Mapping

from autotune.model.report import COMMUNICATION, PHASES, RANK_WAIT, Frame, Report, Step
from autotune.outlet import clean
from autotune.report import progress_bar
from autotune.report.gains import saves_nothing
from autotune.report.labels import PHASES as PHASE_NAMES
from autotune.report.labels import path, phases
from autotune.report.text import hot_lines
from autotune.report.text.layout import StyledLine, shorten, wrap
from autotune.report.units import percent, step_time

FOLDED_BELOW = 0.02
"""Phases below this share of the step go into one line."""

FRAMES_FROM = 0.05
"""From this share of the step on, the frames that fill "other" are shown."""

_OF_SEVERAL = (RANK_WAIT, COMMUNICATION)
"""Phases that most runs do not have."""

_BAR = 36
_FRAMES = 3


def lines(report: Report, width: int) -> list[StyledLine]:
    """The heading with the reader's own s/it, the bars, the small phases and what was not observed."""
    step = report.step
    if step is None:
        return []
    shares = {phase: ms / step.mean_ms for phase in PHASES if (ms := step.breakdown_ms.get(phase)) is not None}
    shown = sorted((p for p in shares if shares[p] >= FOLDED_BELOW), key=lambda p: -shares[p])
    bars: list[StyledLine] = []
    for phase in shown:
        bars.append(_bar(phase, shares[phase], step, _numbers(phase, report)))
        is_told = any(line.phase_ms.get("other") for line in hot_lines.shown_lines(step))
        if phase == "other" and shares[phase] >= FRAMES_FROM and not is_told:
            bars += _frames(report, step, width)
    return [
        *_heading(report, step, width),
        *bars,
        *_small_phases(shares, width),
        *_phases_without_time_lines(step, width),
        *hot_lines.lines(report, step, width),
    ]


def _heading(report: Report, step: Step, width: int) -> list[StyledLine]:
    head = f"Where the {step_time(step.mean_ms)} per step go ({reader_rate(report, step)})"
    return [StyledLine(line.text, "heading") for line in wrap(head, width, rest="  ")]


def reader_rate(report: Report, step: Step) -> str:
    """The mean step as a progress bar shows it, and what comes beside."""
    unit, extra = progress_bar.written(progress_bar.iteration_ms(step), report), progress_bar.seen_between(step)
    return f"{unit}, plus {extra}" if extra else unit


def _numbers(phase: str, report: Report) -> str:
    """The recommendations that act on a phase and, after those before them, still save something."""
    numbers = [
        str(each.number)
        for each in report.recommendations
        if any(phase in phases(finding.rule) for finding in each.findings) and not saves_nothing(each)
    ]
    return f"  <- {', '.join(numbers)}" if numbers else ""


def _bar(phase: str, share: float, step: Step, numbers: str) -> StyledLine:
    bar = "#" * max(round(share * _BAR), 1)
    time = step_time(share * step.mean_ms)
    return StyledLine(f"  {PHASE_NAMES[phase]:<14} {share * 100:>5.1f} %  {time:>7}  {bar}{numbers}")


def _frames(report: Report, step: Step, width: int) -> list[StyledLine]:
    frames = sorted(step.other, key=lambda frame: -frame.share)[:_FRAMES]
    return [
        StyledLine(f"      {percent(each.share):>6} {shorten(_frame(each, report), width - 13)}") for each in frames
    ]


def _frame(frame: Frame, report: Report) -> str:
    busy = hot_lines.busy_cpus(frame, report)
    return clean(f"{frame.function}, {path(frame.file, report.run.folder)}:{frame.line}{f' ({busy})' if busy else ''}")


def _small_phases(shares: Mapping[str, float], width: int) -> list[StyledLine]:
    small = sorted((p for p in shares if 0 < shares[p] < FOLDED_BELOW), key=lambda p: -shares[p])
    text = ", ".join(f"{PHASE_NAMES[phase]} {shares[phase] * 100:.1f}" for phase in small)
    return wrap(f"{text} %", width, first="  ", rest="  ") if small else []


def _phases_without_time_lines(step: Step, width: int) -> list[StyledLine]:
    text = phases_without_time(step)
    return wrap(text, width, first="  ", rest="  ") if text else []


def phases_without_time(step: Step) -> str:
    """ "none in the window: checkpoint; not observed: copy to device, evaluation"; "" where each took some."""
    parts = {
        "none in the window": [p for p in PHASES if step.breakdown_ms.get(p) == 0],
        "not observed": [p for p in PHASES if step.breakdown_ms.get(p) is None and p not in _OF_SEVERAL],
    }
    return "; ".join(f"{head}: {', '.join(PHASE_NAMES[p] for p in found)}" for head, found in parts.items() if found)
