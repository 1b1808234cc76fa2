"""The recommendations in groups, by the decision that the reader has to make."""

from __future__ import annotations

from collections.abc import Sequence

from autotune.model.finding import Recommendation
from autotune.model.report import Report
from autotune.report.advice import APPLY_NOW, ASK, DECIDE, AdviceRow, rows, saved, title
from autotune.report.gains import decisions, questions, ready_to_apply
from autotune.report.text.layout import StyledLine, spread, to_copy, with_label


def unchanged_lines(report: Report, width: int) -> list[StyledLine]:
    """What can be applied now, or nothing."""
    return _group(StyledLine(_heading(APPLY_NOW), "apply"), ready_to_apply(report), report, width)


def decision_lines(report: Report, width: int) -> list[StyledLine]:
    """What the reader decides on, or nothing."""
    return _group(StyledLine(_heading(DECIDE), "decide"), decisions(report), report, width)


def question_lines(report: Report, width: int) -> list[StyledLine]:
    """What is worth a look and no claim, or nothing."""
    return _group(StyledLine(_heading(ASK), "decide"), questions(report), report, width)


def _heading(text: str) -> str:
    """The part before the colon in capitals."""
    first, _, rest = text.partition(":")
    return f"{first.upper()}:{rest}"


def _group(heading: StyledLine, group: Sequence[Recommendation], report: Report, width: int) -> list[StyledLine]:
    return [heading, *(line for each in group for line in _one(each, report, width))] if group else []


def _one(recommendation: Recommendation, report: Report, width: int) -> list[StyledLine]:
    lines = spread(title(recommendation), saved(recommendation, report), width, "heading")
    return [*lines, *(line for row in rows(recommendation, report) for line in _row(row, width))]


def _row(row: AdviceRow, width: int) -> list[StyledLine]:
    return [to_copy(row.label, row.text)] if row.is_to_copy else with_label(row.label, row.text, width)
