from __future__ import annotations

import pytest

from autotune.catalogue.coercion import literal, same, typed


@pytest.mark.parametrize(
    ("value", "kind", "expected"),
    [
        ("3e-4", "float", 3e-4),
        (2, "float", 2.0),
        ("16", "int", 16),
        (5e8, "int", 500_000_000),
        ("500ba", "int", None),
        ("1ep", "int", None),
        (1.5, "int", None),
        (True, "int", None),
        (float("nan"), "float", None),
        (float("inf"), "int", None),
        ("1" * 400, "int", None),
        ("yes", "bool", True),
        ("False", "bool", False),
        ("T", "bool", True),
        ("y", "bool", True),
        ("f", "bool", False),
        ("n", "bool", False),
        (1, "bool", True),
        (2, "bool", None),
        ("auto", "bool", None),
        (False, "text", "no"),
        (True, "text", "yes"),
        (4, "text", "4"),
        (None, "text", None),
        ((4, 1), "text", None),
    ],
)
def test_typed(value, kind: str, expected) -> None:
    found = typed(value, kind)
    assert found == expected
    assert type(found) is type(expected)


@pytest.mark.parametrize(
    ("value", "wanted", "is_same"),
    [
        ("INDUCTOR", "inductor", True),
        (False, "no", True),
        ("true", True, True),
        (1, True, True),
        ("full", True, False),
        (None, False, False),
        (4.0, 4, True),
        ("4", 4, True),
        ("4", 8, False),
    ],
)
def test_same(value, wanted, is_same: bool) -> None:
    assert same(value, wanted) is is_same


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("16", 16),
        ("-1", -1),
        ("3e-4", 3e-4),
        ("True", True),
        ("false", False),
        ("no", "no"),
        ("1_000", 1000),
        ("", ""),
    ],
)
def test_literal(text: str, expected) -> None:
    found = literal(text)
    assert found == expected
    assert type(found) is type(expected)
