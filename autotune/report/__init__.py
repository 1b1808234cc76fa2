"""The outputs: a module and a line in RENDERERS each. live.py is the progress display, imported when used."""

from __future__ import annotations

from collections.abc import Callable

from autotune.errors import UsageError
from autotune.model.report import Report
from autotune.report import json_out, text

RENDERERS: dict[str, Callable[[Report, bool, int], str]] = {
    "text": text.render,
    "json": json_out.render,
}
"""Output by name: a function of the report, colour and width (ignored by an output that needs neither)."""


def render(report: Report, format: str, *, colour: bool = False, width: int = 80) -> str:  # noqa: A002
    """`report` as "text" or "json", ending in a newline. Raises UsageError for another format.

    No line of the text is wider than `width` columns (60 at least); `colour` adds terminal styles to it.
    """
    if format not in RENDERERS:
        raise UsageError(
            f"unknown format {format!r}", where="--format", to_do=f"Choose one of: {', '.join(RENDERERS)}."
        )
    return RENDERERS[format](report, colour, width)
