"""The run as it is and as it could be: time, cost and speed-up."""

from __future__ import annotations

from collections.abc import Sequence

from autotune.model.report import Report
from autotune.report.gains import speedup
from autotune.report.stages import Stage, notes, stages, title
from autotune.report.text.layout import StyledLine, cells, pad, wrap
from autotune.report.units import duration, money


def lines(report: Report, width: int) -> list[StyledLine]:
    """A row for each stage, and what their times leave out; nothing without a step."""
    found = stages(report)
    if not found:
        return []
    return [
        *_table(found, report, width),
        *(line for note in notes(found, report) for line in wrap(note, width, first="  ", rest="  ")),
    ]


def _table(found: Sequence[Stage], report: Report, width: int) -> list[StyledLine]:
    """A line for each stage; the column of times is no wider than they are where a line would not fit."""
    titles = [title(stage, report) for stage in found]
    column = max(map(cells, titles))
    for times in (12, max(cells(duration(stage.seconds)) for stage in found)):
        values = [_values(stage, report, times) for stage in found]
        lines = [f"  {pad(name, column)}  {text}" for name, text in zip(titles, values, strict=True)]
        if max(map(cells, lines)) <= width:
            break
    return [StyledLine(line) for line in lines]


def _values(stage: Stage, report: Report, times: int) -> str:
    price = report.price_per_hour
    cost = f"  {money(stage.seconds / 3600 * price):>8}" if price is not None else ""
    gained = f"  {speedup(stage.gain, report.step)}" if stage.gain else ""
    return f"{duration(stage.seconds):>{times}}{cost}{gained}"
