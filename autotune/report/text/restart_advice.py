"""Whether a change pays: over the planned run, for a job that already runs, and whether to restart that job."""

from __future__ import annotations

from collections.abc import Iterator

from autotune.model.outlook import Payback, Position, Restart, RestartForecast, RestartOption
from autotune.model.report import Report
from autotune.report.text.layout import StyledLine, cells, pad, wrap
from autotune.report.units import duration, money

WAYS = {
    RestartOption.FINISH: "let it end",
    RestartOption.RESTART_NOW: "restart now",
    RestartOption.RESTART_AFTER_SAVE: "restart after a save",
}


def lines(report: Report, width: int) -> list[StyledLine]:
    """When the changes pay off, then the advice for a running job."""
    return [*payback_lines(report, width), *restart_lines(report, width)]


def payback_lines(report: Report, width: int) -> list[StyledLine]:
    """That the changes are not worth it, or after how many steps a restart for them pays; nothing without a gain."""
    found = report.outlook.payback
    if found is None or report.outlook.restart is not None:
        return []
    text = _not_worth(found) if found.is_worth_it is False else _after(found)
    return wrap(text, width, rest="  ") if text else []


def _not_worth(found: Payback) -> str:
    high, planned, least = found.high_s or 0.0, found.planned_s or 0.0, found.least_s or 0.0
    return (
        f"Not worth it for this run alone: {_numbers(found.numbers)} would save at most {duration(max(0.0, high))} of "
        f"{duration(planned)}, less than {duration(least)} (2 % of the run, at least 1 min)."
    )


def _after(found: Payback) -> str:
    """ "Restarting a job that runs, for 1: its start-up (41 s) pays off after 310 steps (240 to 410)."; of a bound
    the best case alone."""
    if found.startup_s is None:
        return ""
    head = f"Restarting a job that already runs, for {_numbers(found.numbers)}"
    if found.steps is None or found.low_steps is None:
        return f"{head}, would not pay: no time is saved."
    if found.saved_s is not None and found.saved_s < found.startup_s:
        return f"{head}, would not pay: this run saves less than a start-up takes ({duration(found.startup_s)})."
    least = f"{found.low_steps:,}"
    most = f"{found.high_steps:,}" if found.high_steps is not None else "never"
    between = f"{found.steps:,} steps ({least} to {most})"
    after = f"{least} steps at the earliest" if found.basis == "bound" else between
    return f"{head}: its start-up ({duration(found.startup_s)}) pays off after {after}, right after a save."


def restart_lines(report: Report, width: int) -> list[StyledLine]:
    """The ways on of a running job and what to do; nothing when it was not asked for."""
    found = report.outlook.restart
    if found is None:
        return []
    if found.position is None:
        return wrap(f"Restart or finish: {'; '.join(found.notes)}.", width, rest="  ")
    return [
        *[StyledLine(line.text, "heading") for line in wrap(heading(found, found.position), width, rest="  ")],
        *_courses(found, report.price_per_hour, width),
        *wrap(advice(found), width, first="  ", rest="  "),
        *(line for note in found.notes for line in wrap(note, width, first="  Note: ", rest="    ")),
    ]


def heading(found: Restart, where: Position) -> str:
    """ "Restart for 1 or finish: step 1,200 of 7,800, 6,600 to go at 3.62 s per step"."""
    changes = f" for {_numbers(found.numbers)}" if found.numbers else ""
    left = f"{where.left:,} to go at {where.step_s:.3g} s per step"
    return f"Restart{changes} or finish: step {where.step:,} of {where.total:,}, {left}"


def _courses(found: Restart, price: float | None, width: int) -> Iterator[StyledLine]:
    column = max(cells(WAYS[course.way]) for course in found.courses)
    for course in found.courses:
        first = f"  {pad(WAYS[course.way], column)}  {duration(course.seconds):>10} "
        yield from wrap(details(course, price), width, first=first, rest=" " * cells(first))


def details(course: RestartForecast, price: float | None) -> str:
    """ "(4 h 25 min to 4 h 50 min), $11.38, 200 steps repeated"."""
    between = f"({duration(course.low_s)} to {duration(course.high_s)})" if course.low_s != course.high_s else ""
    if between and course.seconds <= course.low_s:
        between = f"at best, at worst {duration(course.high_s)}"
    cost = money(course.seconds / 3600 * price) if price is not None else ""
    again = f"{course.repeated_steps:,} steps repeated" if course.repeated_steps else ""
    wait = f"in {course.wait_steps:,} steps" if course.wait_steps else ""
    return ", ".join(part for part in (between, cost, again, wait) if part)


def advice(found: Restart) -> str:
    """What to do, with what it saves."""
    least, finish = duration(found.least_s), found.courses[0]
    rest = [course for course in found.courses if course.way is not RestartOption.FINISH]
    if not rest:
        return "Let it end." if found.choice is RestartOption.FINISH else "Cannot tell."
    best = min(rest, key=lambda course: course.seconds)
    if found.choice is None:
        return (
            "Cannot tell: the range of the gain includes both answers. A restart has to save "
            f"{least} (2 % of the remaining time, at least 1 min). `autotune verify` narrows the gain."
        )
    if found.choice is RestartOption.FINISH:
        return f"Let it end: a restart would not save {least} (2 % of the remaining time, at least 1 min)."
    likely, least, most = (duration(finish.seconds - each) for each in (best.seconds, best.high_s, best.low_s))
    saved = f"{least} to {most}" if found.basis == "bound" else f"{likely} ({least} to {most})"
    what = WAYS[found.choice].capitalize()
    return f"{what}: saves {saved}, start-up included. It needs a resumable checkpoint."


def _numbers(numbers: tuple[int, ...]) -> str:
    return ", ".join(map(str, numbers))
