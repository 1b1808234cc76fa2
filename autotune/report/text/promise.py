"""Whether a running job is as fast as expected after the changes, in a sentence."""

from __future__ import annotations

from autotune.model.outlook import Promise
from autotune.model.report import Report
from autotune.report.text.layout import StyledLine, wrap
from autotune.report.units import step_time

_STYLES = {"kept": "apply", "broken": "bad", "as_before": "decide", "unknown": ""}


def lines(report: Report, width: int) -> list[StyledLine]:
    """The sentence; nothing where it was not asked for, or nothing was promised."""
    found = report.outlook.promise
    if found is None:
        return []
    return [StyledLine(line.text, _STYLES[found.result]) for line in wrap(sentence(found), width, rest="  ")]


def sentence(found: Promise) -> str:
    """ "As expected after 1: 2.61 s per step (2.58 s expected, 2.71 s at most)."."""
    numbers = ", ".join(map(str, found.numbers))
    before = f"{step_time(found.now_ms)} before"
    expected = f"{step_time(found.expected_ms)} expected, {step_time(found.limit_ms)} at most, {before}"
    if found.shown_ms is None:
        return f"Whether it is as fast as expected after {numbers} is unknown: the line has no rate that adds up."
    shown = f"{step_time(found.shown_ms)} per step"
    if found.result == "kept":
        return f"As expected after {numbers}: {shown} ({expected})."
    if found.result == "broken":
        return f"Slower than expected after {numbers}: {shown} ({expected}). Run autotune diagnose again."
    if found.result == "as_before":
        absent = "They are not in that job, or without effect: then run autotune diagnose again."
        return f"Not faster than before {numbers}: {shown} ({expected}). {absent}"
    if found.limit_ms < found.shown_ms <= found.now_ms:
        paused = "saves and evaluations, which are not in what is expected, may take the rest"
        return f"Whether it is as fast as expected after {numbers} is unknown: {shown} ({expected}); {paused}."
    return f"The line is of another run, or its bar counts something else: {shown} ({expected})."
