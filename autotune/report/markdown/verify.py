"""A verification as a note in Markdown."""

from __future__ import annotations

from autotune.model.verified import Verified
from autotune.report.markdown.note import write
from autotune.report.note.verify import note


def render(verified: Verified, colour: bool, width: int) -> str:
    """The note; Markdown has neither colours nor a width."""
    return write(note(verified))
