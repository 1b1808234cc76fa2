"""The printed list of rules: two lines or more for each."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Sequence

from autotune.model.explanation import ListedRule
from autotune.outlet import plain

_INDENT = " " * 16


def render(rules: Sequence[ListedRule], colour: bool, width: int) -> str:
    """The rules in lines of at most `width` columns."""
    return plain("".join(f"{line}\n" for listed in rules for line in _lines(listed, width)))


def _lines(listed: ListedRule, width: int) -> Iterator[str]:
    rule = listed.rule
    yield f"{rule.id}  {rule.severity:<9}{rule.name}{'  [check]' if listed.decides_without_a_run else ''}"
    yield from textwrap.wrap(
        rule.summary, width, initial_indent=_INDENT, subsequent_indent=_INDENT, break_on_hyphens=False
    )
