"""A verification as one HTML file."""

from __future__ import annotations

from autotune.model.verified import Verified
from autotune.report.html.page import write
from autotune.report.note.verify import note


def render(verified: Verified, colour: bool, width: int) -> str:
    """The page; the browser chooses colours and width."""
    return write(note(verified))
