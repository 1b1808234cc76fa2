"""autotune explain: the name of a rule in, its page out."""

from __future__ import annotations

import click

from autotune.cli.output import show
from autotune.explain.explain import explain
from autotune.report import render


@click.command()
@click.argument("rule")
def command(rule: str) -> None:
    """Say what RULE (an id such as DL001, or its name) looks for, why, and what it advises."""
    show(render("explain", explain(rule)))
