"""What fits, as a note in Markdown."""

from __future__ import annotations

from autotune.model.fitted import Fitted
from autotune.report.markdown.note import write
from autotune.report.note.fit import note


def render(fitted: Fitted, colour: bool, width: int) -> str:
    """The note; Markdown has neither colours nor a width."""
    return write(note(fitted))
