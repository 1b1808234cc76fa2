"""autotune rules: every rule in two lines, or all of them as JSON."""

from __future__ import annotations

import json
import textwrap
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import click

from autotune.cli.pages import write
from autotune.engine.find_rule import list_rules
from autotune.engine.static import decides_without_a_run
from autotune.model.rule import Rule
from autotune.outlet import print_stdout

WIDTH = 80
INDENT = " " * 16


@click.command()
@click.option("--format", "format_", type=click.Choice(("text", "json")), default="text", help="Output format.")
@click.option("--docs", type=click.Path(file_okay=False, path_type=Path), help="Write a page for each rule here.")
def command(format_: str, docs: Path | None) -> None:
    """List every rule: id, severity, name and what it says; [check] marks those that need no run."""
    rules = list_rules()
    if docs is not None:
        write(rules, docs)
        return
    print_stdout(as_json(rules) if format_ == "json" else as_text(rules))


def as_text(rules: Iterable[Rule]) -> str:
    """Two lines or more a rule, at most 80 columns wide."""
    return "\n".join(line for rule in rules for line in _lines(rule))


def as_json(rules: Iterable[Rule]) -> str:
    """One object: {"schema": 1, "rules": [...]}."""
    return json.dumps({"schema": 1, "rules": [_row(rule) for rule in rules]}, indent=2)


def _lines(rule: Rule) -> list[str]:
    head = f"{rule.id}  {rule.severity:<9}{rule.name}{'  [check]' if decides_without_a_run(rule) else ''}"
    return [head, *textwrap.wrap(rule.summary, WIDTH, initial_indent=INDENT, subsequent_indent=INDENT)]


def _row(rule: Rule) -> dict[str, Any]:
    return {
        "id": rule.id,
        "name": rule.name,
        "severity": rule.severity,
        "confidence": rule.confidence,
        "status": rule.status,
        "since": rule.since,
        "subject": rule.subject,
        "decides_without_a_run": decides_without_a_run(rule),
        "summary": rule.summary,
        "settings": list(dict.fromkeys(fix.setting for fix in rule.fixes if fix.setting)),
    }
