"""autotune rules: every rule in two lines, all of them as JSON, or their pages."""

from __future__ import annotations

from pathlib import Path

import click

from autotune.cli import options
from autotune.cli.output import show
from autotune.explain import rule_pages
from autotune.explain.rules import list_rules
from autotune.report import render


@click.command()
@options.format_of("rules")
@click.option("--docs", type=click.Path(file_okay=False, path_type=Path), help="Write a page for each rule here.")
def command(format_: str, docs: Path | None) -> None:
    """List every rule: id, severity, name and what it says; [check] marks those that need no run."""
    if docs is not None:
        rule_pages.write(docs)
    else:
        show(render("rules", list_rules(), format_))
