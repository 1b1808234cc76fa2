"""A line on stderr that begins at the left edge of the terminal, whatever the script is drawing there."""

from __future__ import annotations

import os
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import TextIO


def write_line(text: str) -> None:
    """Write `text` as one line on stderr: above the bars of tqdm that are drawn, below what else stands in the line of
    the cursor. Raises what the stream raises."""
    bars = getattr(sys.modules.get("tqdm"), "tqdm", None)
    if bars is not None and getattr(bars, "_instances", None):
        bars.write(text, file=sys.stderr)
    else:
        sys.stderr.write(f"{_left_edge(sys.stderr)}{text}\n")
        sys.stderr.flush()


def _left_edge(stream: TextIO) -> str:
    """What moves the cursor of a terminal to the left edge of an empty line. As many blanks as it has columns fill a
    line from its first column and stay in it; from any other column they go on in the next line. Where a
    program has replaced sys.stderr (rich does), its object finds the line itself."""
    if stream is not sys.__stderr__ or not stream.isatty():
        return ""
    try:
        columns = os.get_terminal_size(stream.fileno()).columns
    except (OSError, ValueError):
        return ""
    return " " * columns + "\r" if columns else ""
