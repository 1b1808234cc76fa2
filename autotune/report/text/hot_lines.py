"""The lines and modules that cost most, with their part of the backward pass."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import PurePath

from autotune.model.evidence import RUN
from autotune.model.report import Frame, HotLine, LineTable, Report, Step
from autotune.outlet import clean
from autotune.report.labels import path
from autotune.report.text.layout import StyledLine, cells, pad, shorten, wrap
from autotune.report.units import number, percent

SHOWN_FROM = 0.05
"""Of the step."""

MOST_LINES = 4
MOST_MODULES = 4
IDLE_FROM = 0.5
"""Of a line's time on CUDA: so much is said, of what the device waits in it."""

SEVERAL = 1.5
"""Runs in a step from which on their number is said."""

_PLACE = 36


def lines(report: Report, step: Step, width: int) -> list[StyledLine]:
    """A heading and a row for each line; the modules in one paragraph; nothing without stack samples."""
    every = shown_lines(step)
    if step.lines is None or not every:
        return []
    is_traced = step.lines.ops is not None
    head = "Lines that cost most, with the backward pass of their operations" if is_traced else "Lines that cost most"
    rows = [_row(line, step, report, width) for line in every]
    return [StyledLine(""), StyledLine(head, "heading"), *rows, *_modules(step.lines, width)]


def shown_lines(step: Step) -> list[HotLine]:
    """The lines that the report names."""
    every = step.lines.lines if step.lines is not None else ()
    return [line for line in every if line.share >= SHOWN_FROM][:MOST_LINES]


def busy_cpus(frame: Frame, report: Report) -> str:
    """How many of its CPUs the process uses there: "1.0 of 8 CPUs"; "" where that is not known, or there is one."""
    cpus = report.evidence.lookup(RUN, "machine.cpus_per_rank")
    if frame.busy_cpus is None or not isinstance(cpus, int | float) or cpus < 2:
        return ""
    return f"{frame.busy_cpus:.1f} of {cpus:g} CPUs"


def line_place(line: HotLine, report: Report) -> str:
    """ "model.py:58 (forward)"."""
    where = f"{path(line.file, report.run.folder)}:{line.line}"
    return clean(f"{where} ({line.function})" if line.function and line.function != "<module>" else where)


def _row(line: HotLine, step: Step, report: Report, width: int) -> StyledLine:
    """Of the path the name alone: the verdict and the JSON have it whole."""
    name = clean(f"{PurePath(line.file).name}:{line.line}")
    place = f"{name} {clean(f'({line.function})')}" if line.function not in ("", "<module>") else name
    if cells(place) > _PLACE:
        place = shorten(name, _PLACE)
    head = f"  {percent(line.share):>5}  {pad(place, _PLACE)}  "
    return StyledLine(head + _fitting(details(line, step, report), width - cells(head)))


def _fitting(parts: Iterable[str], width: int) -> str:
    """In their order, as many as there is room for."""
    text, every = "", list(parts)
    for part in every:
        longer = f"{text}, {part}" if text else part
        text = longer if cells(longer) <= width else text
    return text or shorten(", ".join(every), width)


def details(line: HotLine, step: Step, report: Report) -> Iterator[str]:
    ms = line.share * step.mean_ms
    if line.device_ms is not None and ms and 1 - line.device_ms / ms >= IDLE_FROM:
        yield f"GPU idle {percent(1 - line.device_ms / ms)}"
    if line.callers:
        caller = line.callers[0]
        name = "" if caller.file == line.file else clean(PurePath(caller.file).name)
        yield f"from {name}:{caller.line}"
    if line.runs is not None and line.runs >= SEVERAL:
        yield f"{number(line.runs)}x"
    if line.ops and line.op_us is not None:
        yield f"{number(line.ops)} ops of {number(line.op_us)} us"
    if line.operations:
        yield line.operations[0][0].removeprefix("aten::")
    elif line.callee:
        yield ".".join(line.callee.split(".")[-2:])
    frame = next((one for one in step.other if (one.file, one.line) == (line.file, line.line)), None)
    if frame is not None and (busy := busy_cpus(frame, report)):
        yield busy


def _modules(table: LineTable, width: int) -> list[StyledLine]:
    shown = [module for module in table.modules if module.share >= SHOWN_FROM][:MOST_MODULES]
    text = ", ".join(f"{clean(module.name)} {percent(module.share)}" for module in shown)
    return wrap(f"Modules: {text}", width, first="  ", rest="  ") if shown else []
