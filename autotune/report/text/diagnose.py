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
    first_screen,
    footer,
    memory,
    promise,
    ranks,
    restart_advice,
    run_time,
    startup,
    verdict,
)
from autotune.report.text.layout import MIN_WIDTH, StyledLine, paragraph, to_text

_DETAILS = (
    promise.lines,
    restart_advice.lines,
    breakdown.lines,
    device.lines,
    ranks.lines,
    startup.lines,
)


def render(report: Report, colour: bool, width: int, *, verbose: bool = False) -> str:
    """The report in lines of at most `width` columns (MIN_WIDTH at least): on the first screen the verdict, the numbers
    and at most three actions; then the details. `verbose` says of each topic why it was not looked at."""
    width = max(width, MIN_WIDTH)
    blocks = [
        failure.lines(report, width),
        verdict.lines(report, width),
        [*first_screen.numbers(report, width), *run_time.lines(report, width)],
        first_screen.actions(report, width),
        paragraph("Machine", machine.line(report), width),
        *(section(report, width) for section in _DETAILS),
        *advice.blocks(report, width),
        device_options.lines(report, width),
        [
            *memory.lines(report, width),
            *coverage.lines(report, width, verbose=verbose),
            *footer.lines(report, width),
        ],
        [*footer.next_lines(report, width), *_expected(report, width)],
    ]
    lines = [line for block in blocks if block for line in (StyledLine(""), *block)]
    return to_text(lines[1:], colour, width)


def _expected(report: Report, width: int) -> list[StyledLine]:
    """What the reader's own progress bar should show after each group of changes."""
    found = expectation.expectations(report)
    return [line for one in found for line in paragraph(expectation.head(one), expectation.sentence(one), width)]
