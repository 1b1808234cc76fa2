"""What fits, as one HTML file."""

from __future__ import annotations

from autotune.model.fitted import Fitted
from autotune.report.html.page import write
from autotune.report.note.fit import note


def render(fitted: Fitted, colour: bool, width: int) -> str:
    """The page; the browser chooses colours and width."""
    return write(note(fitted))
