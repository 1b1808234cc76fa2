"""What a command wrote to its stderr, where that went into a file: the end of it."""

from __future__ import annotations

from pathlib import Path

MOST_LINES = 40
MOST_BYTES = 16 << 10


def last_lines(file: Path) -> str:
    """The last lines of `file`, "" without any. Of a line that was written over again, as progress bars are, the last
    state."""
    try:
        with file.open("rb") as opened:
            opened.seek(max(0, file.stat().st_size - MOST_BYTES))
            text = opened.read().decode("utf-8", "replace")
    except OSError:
        return ""
    lines = [line.rstrip("\r").rpartition("\r")[2].rstrip() for line in text.split("\n")]
    return "\n".join([line for line in lines if line][-MOST_LINES:])
