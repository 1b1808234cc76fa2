"""The printed report: sections between empty lines, each from a module of its own."""

from __future__ import annotations

from autotune.model.report import Report
from autotune.report import expectation, machine
from autotune.report.text import (
    advice,
    breakdown,
    coverage,
    device,
    device_options,
    failure,
    footer,
    memory,
    promise,
    ranks,
    restart_advice,
    run_time,
    startup,
    verdict,
)
from autotune.report.text.layout import MIN_WIDTH, StyledLine, paragraph, to_text, wrap

_SECTIONS = (
    failure.lines,
    verdict.lines,
    run_time.lines,
    promise.lines,
    restart_advice.lines,
    breakdown.lines,
    device.lines,
    ranks.lines,
    startup.lines,
    advice.unchanged_lines,
    advice.decision_lines,
    advice.question_lines,
    device_options.lines,
)


def render(report: Report, colour: bool, width: int) -> str:
    """The report in lines of at most `width` columns (MIN_WIDTH at least)."""
    width = max(width, MIN_WIDTH)
    blocks = [wrap(machine.line(report), width)]
    blocks += [section(report, width) for section in _SECTIONS]
    blocks.append([*memory.lines(report, width), *coverage.lines(report, width), *footer.lines(report, width)])
    blocks.append([*footer.next_lines(report, width), *_expected(report, width)])
    lines = [line for block in blocks if block for line in (StyledLine(""), *block)]
    return to_text(lines[1:], colour, width)


def _expected(report: Report, width: int) -> list[StyledLine]:
    """What the reader's own progress bar should show after each group of changes."""
    found = expectation.expectations(report)
    return [line for one in found for line in paragraph(expectation.head(one), expectation.sentence(one), width)]
