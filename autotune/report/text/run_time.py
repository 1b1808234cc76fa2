"""The run as it is and as it could be: time, cost and speed-up."""

from __future__ import annotations

from collections.abc import Sequence

from autotune.model.finding import MOST_REMOVED, Gain, Recommendation
from autotune.model.report import Report, Step
from autotune.report.gains import (
    additional_gain,
    basis,
    combine,
    counted_steps,
    decisions,
    excluded_phases,
    is_whole_run,
    ready_to_apply,
    saved_s,
    saves_nothing,
    speedup,
)
from autotune.report.text.layout import StyledLine, cells, pad, wrap
from autotune.report.units import duration, money

Row = tuple[str, float, Gain | None]

_UNVERIFIED = {
    "modelled": "modelled: computed from this window, unverified",
    "profiled": "profiled: computed from steps that a profiler slowed down, unverified",
}


def lines(report: Report, width: int) -> list[StyledLine]:
    """This run, with the unchanged group, with the decisions as well: a row each; nothing without a step."""
    if report.step is None:
        return []
    rows = _rows(report, report.step)
    notes = [f"{why}: times are per 1,000 steps."] if (why := _why_no_total(report, report.step)) else []
    notes += [f"Its {what} are not included: none was timed." for what in excluded_phases(report)]
    bases = {basis(gain, report.step) for _, _, gain in rows if gain is not None}
    notes += [f"({words})" for name, words in _UNVERIFIED.items() if name in bases]
    return [
        *_table(rows, report, width),
        *(line for note in notes for line in wrap(note, width, first="  ", rest="  ")),
    ]


def _why_no_total(report: Report, step: Step) -> str:
    """What keeps the time of the whole run unknown; "" when it is known."""
    if step.run_ms is None and not excluded_phases(report):
        return "The interval or cost of saves or evaluations is unknown, and some of them fall into these steps"
    if is_whole_run(report):
        return ""
    planned = report.run.planned_steps
    return f"Not all of this run of {planned:,} steps was timed" if planned else "The length of the run is unknown"


def _rows(report: Report, step: Step) -> list[Row]:
    steps = counted_steps(report)
    label = f"this run, {steps:,} steps" if is_whole_run(report) else f"now, {steps:,} steps"
    seconds = steps * (step.mean_ms if step.run_ms is None else step.run_ms) / 1000
    rows: list[Row] = [(label, seconds, None)]
    now, later = _with_gain(ready_to_apply(report)), _with_gain(decisions(report))
    if gain := combine(now):
        rows.append((f"+ {_numbers(now)} (training unchanged)", _left_s(seconds, gain, report), gain))
    if later and (gain := combine([*now, *later])):
        rows.append((f"+ {_numbers(later)} (your decision)", _left_s(seconds, gain, report), gain))
    return rows


def _left_s(seconds: float, gain: Gain, report: Report) -> float:
    """What is left of `seconds`: a sum of bounds may be more than there is."""
    return max(seconds * (1 - MOST_REMOVED), seconds - (saved_s(gain, report) or 0.0))


def _with_gain(recommendations: Sequence[Recommendation]) -> list[Recommendation]:
    return [each for each in recommendations if additional_gain(each) is not None and not saves_nothing(each)]


def _numbers(recommendations: Sequence[Recommendation]) -> str:
    """ "2, 3"; "2-7" for a row of more than three."""
    numbers = [each.number for each in recommendations]
    if len(numbers) > 3 and numbers == list(range(numbers[0], numbers[-1] + 1)):
        return f"{numbers[0]}-{numbers[-1]}"
    return ", ".join(map(str, numbers[:3])) + (" ..." if len(numbers) > 3 else "")


def _table(rows: Sequence[Row], report: Report, width: int) -> list[StyledLine]:
    """A line for each row; the column of times is no wider than they are where a line would not fit."""
    column = max(cells(label) for label, _, _ in rows)
    for times in (12, max(cells(duration(seconds)) for _, seconds, _ in rows)):
        lines = [f"  {pad(label, column)}  {_values(seconds, gain, report, times)}" for label, seconds, gain in rows]
        if max(map(cells, lines)) <= width:
            break
    return [StyledLine(line) for line in lines]


def _values(seconds: float, gain: Gain | None, report: Report, times: int) -> str:
    price = report.price_per_hour
    cost = f"  {money(seconds / 3600 * price):>8}" if price is not None else ""
    gained = f"  {speedup(gain, report.step)}" if gain else ""
    return f"{duration(seconds):>{times}}{cost}{gained}"
