"""A search as a note in Markdown."""

from __future__ import annotations

from autotune.model.tuned import Tuned
from autotune.report.markdown.note import write
from autotune.report.note.tune import note


def render(tuned: Tuned, colour: bool, width: int) -> str:
    """The note; Markdown has neither colours nor a width."""
    return write(note(tuned))
