"""Where a rendered report goes: the terminal, or a file."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from autotune.errors import UsageError


def has_colour(output: Path | None = None) -> bool:
    """Whether the reader sees colours: on a terminal, unless NO_COLOR is set."""
    return output is None and sys.stdout.isatty() and not os.environ.get("NO_COLOR")


WIDTH, WIDEST = 80, 120
"""Columns of a report that goes to no terminal; longer lines are hard to read."""


def columns(output: Path | None = None, default: int = WIDTH) -> int:
    """The width that the reader has: that of the terminal, else `default`."""
    if output is not None or not sys.stdout.isatty():
        return default
    from shutil import get_terminal_size  # it loads the formats of archives, which take as long as a small check

    return min(WIDEST, get_terminal_size((default, 24)).columns)


def verdict_last(text: str, output: Path | None = None) -> str:
    """A report whose first paragraph, the verdict, is there again at its end where a terminal is too short for all."""
    if output is not None or not sys.stdout.isatty():
        return text
    from shutil import get_terminal_size

    is_long = text.count("\n") >= get_terminal_size((WIDTH, 24)).lines
    return f"{text}\n{text.partition(chr(10) * 2)[0]}\n" if is_long else text


def show(text: str, output: Path | None = None) -> None:
    """Print `text`, or write it to the file `output`. Raises UsageError when that cannot be written."""
    if output is None:
        print(text, end="", flush=True)
        return
    try:
        output.write_text(text, encoding="utf-8")
    except OSError as error:
        raise UsageError(f"cannot be written: {error.strerror}", where=str(output)) from error
