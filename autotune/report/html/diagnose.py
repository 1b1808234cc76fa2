"""A diagnosis as one HTML file."""

from __future__ import annotations

from autotune.model.report import Report
from autotune.report.html.page import write
from autotune.report.note.diagnose import note


def render(report: Report, colour: bool, width: int) -> str:
    """The page; the browser chooses colours and width."""
    return write(note(report))
