"""The outputs of every verb: one module for each format, with its line in RENDERERS.

A module has `render(result, colour, width)`: the result of the verb as text that ends in a newline. It is imported when
its format is asked for: `check` answers in a fraction of a second. Markdown and HTML write the same Note (note/). What
several outputs say in the same words lies beside this file: findings.py, gains.py, stages.py, expectation.py,
advice.py, labels.py, units.py and others. live.py and tune_progress.py show progress.
"""

from __future__ import annotations

import importlib
from typing import Any

from autotune.errors import UsageError

RENDERERS = {
    "diagnose": {
        "text": "autotune.report.text.diagnose",
        "json": "autotune.report.json.diagnose",
        "markdown": "autotune.report.markdown.diagnose",
        "html": "autotune.report.html.diagnose",
    },
    "diagnose --pid": {
        "text": "autotune.report.text.attach",
        "json": "autotune.report.json.attach",
    },
    "check": {
        "text": "autotune.report.text.check",
        "json": "autotune.report.json.check",
        "markdown": "autotune.report.ci.markdown",
        "sarif": "autotune.report.ci.sarif",
        "github": "autotune.report.ci.github",
        "gitlab": "autotune.report.ci.gitlab",
    },
    "check --facts": {
        "text": "autotune.report.text.check_facts",
    },
    "tune": {
        "text": "autotune.report.text.tune",
        "json": "autotune.report.json.tune",
        "markdown": "autotune.report.markdown.tune",
        "html": "autotune.report.html.tune",
    },
    "verify": {
        "text": "autotune.report.text.verify",
        "json": "autotune.report.json.verify",
        "markdown": "autotune.report.markdown.verify",
        "html": "autotune.report.html.verify",
    },
    "fit": {
        "text": "autotune.report.text.fit",
        "json": "autotune.report.json.fit",
        "markdown": "autotune.report.markdown.fit",
        "html": "autotune.report.html.fit",
    },
    "watch": {
        "text": "autotune.report.text.watch",
        "json": "autotune.report.json.watch",
    },
    "runs": {
        "table": "autotune.report.text.runs",
        "csv": "autotune.report.table.csv",
        "json": "autotune.report.json.runs",
        "prometheus": "autotune.report.table.prometheus",
    },
    "apply": {
        "text": "autotune.report.text.apply",
    },
    "undo": {
        "text": "autotune.report.text.undo",
    },
    "explain": {
        "text": "autotune.report.text.explain",
    },
    "rules": {
        "text": "autotune.report.text.rules",
        "json": "autotune.report.json.rules",
    },
}
"""Module of each format, by verb. The first format of a verb is its default."""


UNFOLDS = ("autotune.report.text.diagnose",)
"""What has more to say when it is asked to."""


def formats(verb: str) -> tuple[str, ...]:
    """The formats of a verb's result."""
    return tuple(RENDERERS[verb])


def render(
    verb: str,
    result: Any,
    format: str = "text",  # noqa: A002
    *,
    colour: bool = False,
    width: int = 80,
    verbose: bool = False,
) -> str:
    """The `result` of `verb` in one of its formats, ending in a newline. Raises UsageError for another format.

    Of text, no line is wider than `width` columns (60 at least), and `colour` adds terminal styles. With `verbose` the
    text of `diagnose` says all that it otherwise counts; other outputs say it anyway. Every output can be written as
    UTF-8.
    """
    modules = RENDERERS[verb]
    if format not in modules:
        raise UsageError(f"unknown format {format!r}", where="--format", to_do=f"Choose one of: {', '.join(modules)}.")
    more = {"verbose": True} if verbose and modules[format] in UNFOLDS else {}
    text: str = importlib.import_module(modules[format]).render(result, colour, width, **more)
    return text
