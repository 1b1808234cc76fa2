"""The options table: this device, other cards, and several devices, each cell with what it rests on."""

from __future__ import annotations

from collections.abc import Callable

from autotune.model.outlook import Comparison, DeviceSetup, ValueRange
from autotune.model.report import Report
from autotune.report.text.layout import StyledLine, cells, pad, wrap
from autotune.report.units import duration, money, size, step_time

_MARKS = {"measured": "m", "modelled": "c", "assumed": "a"}
HEAD = ("devices", "memory of each", "exposed comm.", "step")


def lines(report: Report, width: int) -> list[StyledLine]:
    """A row for each, with its run, effort and risk below it; nothing when it was not asked for."""
    found = report.outlook.comparison
    if found is None:
        return []
    if found.why_not:
        return wrap(f"Options: not computed, {found.why_not}.", width, rest="  ")
    rows = [HEAD, *map(row, found.setups)]
    columns = [max(cells(one[index]) for one in rows) for index in range(len(HEAD))]
    texts = ["  ".join(map(pad, one, columns)) for one in rows]
    head = heading(found)
    lines = [*[StyledLine(line.text, "heading") for line in wrap(head, width, rest="  ")], StyledLine(f"  {texts[0]}")]
    for text, setup in zip(texts[1:], found.setups, strict=True):
        lines += [StyledLine(f"  {text}"), *wrap(run_of_setup(setup, found), width, first=" " * 6, rest=" " * 6)]
    return [*lines, *wrap(f"Assumed: {'; '.join(found.assumptions)}.", width, first="  ", rest="  ")]


def heading(found: Comparison) -> str:
    """With what the marks behind the cells mean."""
    return f"Options, {found.steps:,} steps (m measured, c modelled, a rests on an assumption)"


def row(setup: DeviceSetup) -> tuple[str, ...]:
    """Its cells below HEAD."""
    return (
        setup.name,
        _cell(setup.memory, size),
        "none" if setup.exposed is not None and not setup.exposed.high else _cell(setup.exposed, step_time),
        _cell(setup.step, step_time),
    )


def _cell(cell: ValueRange | None, words: Callable[[float], str]) -> str:
    """ "31 GiB m", "10-190 ms a", "?"."""
    if cell is None:
        return "?"
    low, high = words(cell.low), words(cell.high)
    if low == high:
        return f"{low} {_MARKS[cell.basis]}"
    number, _, unit = low.rpartition(" ")
    return f"{number if high.endswith(' ' + unit) and number.count(' ') == 0 else low}-{high} {_MARKS[cell.basis]}"


def run_of_setup(setup: DeviceSetup, found: Comparison) -> str:
    """Whether it fits, the run in time and money, effort and risk."""
    seconds = [ms * found.steps / 1000 for ms in (setup.step.low, setup.step.high)]
    run = _range(duration, *seconds)
    if setup.usd_per_hour is not None:
        run += f", {_range(money, *(each / 3600 * setup.usd_per_hour for each in seconds))}"
    return "; ".join([*_verdict(setup), run, f"effort: {setup.effort}", f"risk: {setup.risk}"])


def _verdict(setup: DeviceSetup) -> list[str]:
    """ "too close to 15 GiB"; nothing of a row that has no limit of its own, or whose memory is not known."""
    if setup.limit_bytes is None or setup.memory is None:
        return []
    if setup.fits is not None:
        words = "fits into" if setup.fits else "does not fit into"
    elif setup.memory.low <= setup.limit_bytes < setup.memory.high:
        words = "too close to"
    else:
        words = "cannot tell whether it fits into"
    return [f"{words} {size(setup.limit_bytes)}"]


def _range(words: Callable[[float], str], low: float, high: float) -> str:
    """ "2 h 2 min to 2 h 41 min"."""
    first, last = words(low), words(high)
    return first if first == last else f"{first} to {last}"
