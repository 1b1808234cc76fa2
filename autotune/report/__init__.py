"""The outputs: a module with a `render` and a line below each. live.py is the progress display of a run.

A module is imported when its output is asked for: `check` answers in a fraction of a second.
"""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from typing import TYPE_CHECKING

from autotune.errors import UsageError

if TYPE_CHECKING:
    from autotune.model.checked import Checked
    from autotune.model.report import Report

RENDERERS = {
    "text": "autotune.report.text.diagnose",
    "json": "autotune.report.json.diagnose",
}
"""Outputs of `diagnose`: `render` is a function of the Report, colour and width."""

CHECK_RENDERERS = {
    "text": "autotune.report.text.check",
    "json": "autotune.report.json.check",
    "markdown": "autotune.report.ci.markdown",
    "sarif": "autotune.report.ci.sarif",
    "github": "autotune.report.ci.github",
    "gitlab": "autotune.report.ci.gitlab",
}
"""Outputs of `check`: `render` is a function of the Checked, colour and width."""


def render(report: Report, format: str, *, colour: bool = False, width: int = 80) -> str:  # noqa: A002
    """`report` as "text" or "json", ending in a newline. Raises UsageError for another format.

    No line of the text is wider than `width` columns (60 at least); `colour` adds terminal styles to it.
    """
    return _rendered(RENDERERS, format, report, colour, width)


def render_check(checked: Checked, format: str, *, colour: bool = False, width: int = 80) -> str:  # noqa: A002
    """`checked` in one of CHECK_RENDERERS, ending in a newline. Raises UsageError for another format.

    `colour` and `width` are of the text, as in `render`. Every output can be written as UTF-8.
    """
    return _rendered(CHECK_RENDERERS, format, checked, colour, width)


def _rendered(
    renderers: Mapping[str, str],
    format: str,  # noqa: A002
    result: Report | Checked,
    colour: bool,
    width: int,
) -> str:
    if format not in renderers:
        raise UsageError(
            f"unknown format {format!r}", where="--format", to_do=f"Choose one of: {', '.join(renderers)}."
        )
    text: str = importlib.import_module(renderers[format]).render(result, colour, width)
    return text
