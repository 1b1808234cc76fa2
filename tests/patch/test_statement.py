"""The functions that take a setting: how edits name what they take, and read it back."""

from __future__ import annotations

import ast

import pytest

from autotune.catalogue.dialects import functions
from autotune.errors import UsageError
from autotune.patch import statement


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("torch.set_num_threads(4)", "set_num_threads"),
        ("t.set_float32_matmul_precision(precision='high')", "set_float32_matmul_precision"),
        ("x = torch.set_num_threads(4)", ""),
        ("torch.manual_seed(4)", ""),
        ("set_num_threads", ""),
    ],
)
def test_a_statement_is_known_by_its_function(text: str, name: str) -> None:
    assert statement.name_of(ast.parse(text).body[0]) == name


def test_the_key_of_a_function_names_it() -> None:
    assert functions()["set_num_threads"] == "torch.set_num_threads"
    assert statement.named(statement.key("set_num_threads")) == "set_num_threads"
    assert [statement.named(key) for key in ("set_num_threads", "DataLoader.num_workers", "f()", "--lr")] == [""] * 4


@pytest.mark.parametrize(
    ("text", "value"),
    [("\n\nt.f(4)\n", 4), ("\nimport t\n\nt.f(4)\n", 4), ("f('high')", "high"), ("f(mode=True)", True)],
)
def test_the_value_of_a_statement(text: str, value: object) -> None:
    assert statement.value(text) == value


@pytest.mark.parametrize("text", ["f()", "f(x)", "f(", "", "x = 4", "f"])
def test_a_statement_without_a_plain_value_is_refused(text: str) -> None:
    with pytest.raises(UsageError, match="no call with a plain value"):
        statement.value(text)
