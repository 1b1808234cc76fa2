"""The lines and modules that cost most, with their part of the backward pass."""

from __future__ import annotations

from collections.abc import Iterator

from autotune.model.report import HotLine, LineTable, Report, Step
from autotune.outlet import clean
from autotune.report.labels import path
from autotune.report.text.layout import StyledLine, cells, pad, shorten, wrap
from autotune.report.units import number, percent

SHOWN_FROM = 0.05
"""Of the step."""

MOST_LINES = 4
MOST_MODULES = 4
SEVERAL = 1.5
"""Runs in a step from which on their number is said."""

_PLACE = 36


def lines(report: Report, step: Step, width: int) -> list[StyledLine]:
    """A heading and a row for each line; the modules in one paragraph; nothing without stack samples."""
    if step.lines is None:
        return []
    shown = [line for line in step.lines.lines if line.share >= SHOWN_FROM][:MOST_LINES]
    if not shown:
        return []
    head = StyledLine("Lines that cost most, with the backward pass of their operations", "heading")
    return [StyledLine(""), head, *(_row(line, report, width) for line in shown), *_modules(step.lines, width)]


def line_place(line: HotLine, report: Report) -> str:
    """ "model.py:58 (forward)"."""
    where = f"{path(line.file, report.run.folder)}:{line.line}"
    return clean(f"{where} ({line.function})" if line.function and line.function != "<module>" else where)


def _row(line: HotLine, report: Report, width: int) -> StyledLine:
    place = line_place(line, report)
    if cells(place) > _PLACE:
        place = shorten(place.partition(" (")[0], _PLACE)
    return StyledLine(shorten(f"  {percent(line.share):>5}  {pad(place, _PLACE)}  {', '.join(_details(line))}", width))


def _details(line: HotLine) -> Iterator[str]:
    if line.runs is not None and line.runs >= SEVERAL:
        yield f"{number(line.runs)}x"
    if line.ops and line.op_us is not None:
        yield f"{number(line.ops)} ops of {number(line.op_us)} us"
    if line.operations:
        yield line.operations[0][0].removeprefix("aten::")
    elif line.callee:
        yield line.callee


def _modules(table: LineTable, width: int) -> list[StyledLine]:
    shown = [module for module in table.modules if module.share >= SHOWN_FROM][:MOST_MODULES]
    text = ", ".join(f"{clean(module.name)} {percent(module.share)}" for module in shown)
    return wrap(f"Modules: {text}", width, first="  ", rest="  ") if shown else []
