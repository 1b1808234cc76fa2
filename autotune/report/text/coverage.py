"""What is already right, what would not help and what was not looked at: each only with its fact."""

from __future__ import annotations

from collections.abc import Iterable

from autotune.model.report import Report
from autotune.report.text.layout import StyledLine, paragraph


def lines(report: Report, width: int) -> list[StyledLine]:
    """Up to three paragraphs."""
    coverage = report.coverage
    return [
        *paragraph("Already right", ", ".join(coverage.right), width),
        *paragraph("Would not help", ", ".join(coverage.useless), width),
        *paragraph("Not looked at", "; ".join(not_looked_at(report)), width),
    ]


def not_looked_at(report: Report) -> list[str]:
    """Topics with the reason that they share."""
    if report.run.traces and not report.run.command:
        return ["what a trace does not tell: the model, settings and code, padding, memory, saves and evaluations"]
    return by_reason(report.coverage.not_looked_at)


def by_reason(topics: Iterable[tuple[str, str]]) -> list[str]:
    """Topics of one reason together: "communication (one process)", "lengths, padding (...)".

    The rules and the facts that were missing are in the JSON report, by name.
    """
    found: dict[str, list[str]] = {}
    for topic, reason in topics:
        found.setdefault(reason, []).append(topic)
    return [f"{', '.join(names)} ({reason})" for reason, names in found.items()]
