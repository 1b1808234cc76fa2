"""No rule reads what nothing states: the folder of a fact's supplier names it. What it states is tested beside it."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import pytest

import autotune
from autotune.catalogue import facts
from autotune.engine.expr import compile_expression
from autotune.engine.load import load_rules
from autotune.model.rule import Rule

PACKAGE = Path(autotune.__file__).parent

TABLES = {"scan": ("catalogue/stated.toml",)}
"""Tables of names that a folder reads facts from."""


@cache
def written(folder: str) -> str:
    """The source of all modules of a folder, and of the tables that it reads, in small letters."""
    files = [*sorted((PACKAGE / folder).rglob("*.py")), *(PACKAGE / table for table in TABLES.get(folder, ()))]
    return "\n".join(file.read_text(encoding="utf-8") for file in files).lower()


def stem(name: str) -> str:
    """What a supplier must write: shares and rates are put together from the names of phases and calls."""
    return name.split(".", 1)[1].removesuffix("_share").removesuffix("_per_step")


def read(rule: Rule) -> set[str]:
    parts = (rule, rule.as_static())
    return {name for part in parts for name in compile_expression(part.when, part.limits).names if name in facts()}


@pytest.mark.parametrize("rule", load_rules(), ids=lambda rule: rule.id)
def test_a_rule_reads_what_is_stated(rule: Rule) -> None:
    suppliers = {name: facts()[name].supplier.split(".")[0] for name in read(rule)}
    assert [name for name, folder in suppliers.items() if stem(name) not in written(folder)] == []
