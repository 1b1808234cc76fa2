"""A search as one HTML file."""

from __future__ import annotations

from autotune.model.tuned import Tuned
from autotune.report.html.page import write
from autotune.report.note.tune import note


def render(tuned: Tuned, colour: bool, width: int) -> str:
    """The page; the browser chooses colours and width."""
    return write(note(tuned))
