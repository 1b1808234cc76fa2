"""What is already right, what would not help and what was not looked at: each only with its fact."""

from __future__ import annotations

from collections.abc import Iterable

from autotune.model.evidence import RUN
from autotune.model.report import Report
from autotune.outlet import clean
from autotune.report.findings import count
from autotune.report.text.layout import StyledLine, cells, paragraph


def lines(report: Report, width: int, *, verbose: bool = False) -> list[StyledLine]:
    """Up to three paragraphs; the reasons of what was not looked at are told where `verbose`."""
    coverage = report.coverage
    return [
        *paragraph("Already right", ", ".join(coverage.right), width),
        *paragraph("Would not help", ", ".join(coverage.useless), width),
        *_not_looked_at_lines(report, width, verbose),
    ]


WHY = "--verbose: why"


def _not_looked_at_lines(report: Report, width: int, verbose: bool) -> list[StyledLine]:
    """With the reasons where asked for, and where that takes one line; else as many topics as fit into one."""
    whole = paragraph("Not looked at", "; ".join(not_looked_at(report)), width)
    if verbose or len(whole) <= 1 or report.run.traces:
        return whole
    topics = list(dict.fromkeys(topic for topic, _ in report.coverage.not_looked_at))
    for shown in range(len(topics), 0, -1):
        more = f" and {len(topics) - shown} more" if shown < len(topics) else ""
        line = clean(f"Not looked at: {', '.join(topics[:shown])}{more} ({WHY})")
        if cells(line) <= width:
            return [StyledLine(line)]
    return [StyledLine(f"Not looked at: {count(len(topics), 'topic')} ({WHY})")]


def not_looked_at(report: Report) -> list[str]:
    """Topics with the reason that they share."""
    if report.run.traces:
        return [_untold(report)]
    return by_reason(report.coverage.not_looked_at)


def _untold(report: Report) -> str:
    """The reasons of a run would be wrong of a trace: nothing was tried, and much was seen."""
    settings = [] if report.run.command else ["settings and code"]
    memory = [] if report.evidence.lookup(RUN, "memory.peak_bytes") is not None else ["memory"]
    topics = ["the model", *settings, "padding", *memory, "saves", "evaluations"]
    return f"what a trace does not tell: {', '.join(topics)}"


def by_reason(topics: Iterable[tuple[str, str]]) -> list[str]:
    """Topics of one reason together: "communication (one process)", "lengths, padding (...)".

    The rules and the facts that were missing are in the JSON report, by name.
    """
    found: dict[str, list[str]] = {}
    for topic, reason in topics:
        found.setdefault(reason, []).append(topic)
    return [f"{', '.join(names)} ({reason})" for reason, names in found.items()]
