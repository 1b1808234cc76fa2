"""autotune explain: the name of a rule in, its page out."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from autotune.cli.output import show
from autotune.explain.explain import explain
from autotune.explain.rules import list_rules
from autotune.report import render

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem


def _ids(context: click.Context, parameter: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """For the shell's completion: the ids that begin so, in any case."""
    from click.shell_completion import CompletionItem  # only a shell that completes a word needs it

    rules = [listed.rule for listed in list_rules()]
    return [CompletionItem(rule.id, help=rule.summary) for rule in rules if rule.id.startswith(incomplete.upper())]


@click.command()
@click.argument("rule", shell_complete=_ids)
def command(rule: str) -> None:
    """Say what RULE (an id such as DL001, or its name) looks for, why, and what it advises."""
    show(render("explain", explain(rule)))
