"""A diagnosis as a note in Markdown."""

from __future__ import annotations

from autotune.model.report import Report
from autotune.report.markdown.note import write
from autotune.report.note.diagnose import note


def render(report: Report, colour: bool, width: int) -> str:
    """The note; Markdown has neither colours nor a width."""
    return write(note(report))
