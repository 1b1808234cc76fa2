"""The recommendations in groups, by the decision that the reader has to make."""

from __future__ import annotations

from autotune.model.finding import Recommendation
from autotune.model.report import Report
from autotune.report.advice import AdviceRow, groups, rows, saved, title
from autotune.report.text.layout import StyledLine, spread, to_copy, with_label


def blocks(report: Report, width: int) -> list[list[StyledLine]]:
    """A block for each group: its heading, and what it recommends."""
    return [
        [
            StyledLine(_heading(heading), "apply" if all(each.is_free for each in group) else "decide"),
            *(line for each in group for line in _one(each, report, width)),
        ]
        for heading, group in groups(report)
    ]


def _heading(text: str) -> str:
    """The part before the colon in capitals."""
    first, _, rest = text.partition(":")
    return f"{first.upper()}:{rest}"


def _one(recommendation: Recommendation, report: Report, width: int) -> list[StyledLine]:
    lines = spread(title(recommendation), saved(recommendation, report), width, "heading")
    return [*lines, *(line for row in rows(recommendation, report) for line in _row(row, width))]


def _row(row: AdviceRow, width: int) -> list[StyledLine]:
    return [to_copy(row.label, row.text)] if row.is_to_copy else with_label(row.label, row.text, width)
