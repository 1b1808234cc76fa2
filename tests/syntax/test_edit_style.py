from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from autotune.errors import UsageError
from autotune.syntax import edit_style
from autotune.syntax.json import read


def test_types_differ() -> None:
    assert edit_style.is_same(1, 1) and edit_style.is_same(float("nan"), float("nan"))
    assert not edit_style.is_same(1, 1.0) and not edit_style.is_same(1, True) and not edit_style.is_same(0.0, -0.0)


@given(
    st.floats(allow_nan=False, allow_infinity=False), st.sampled_from(["", "1", "0.1", "1e-3", "1.0e-3", "5.E4", "x"])
)
def test_a_float_stays_the_same_number(value: float, old: str) -> None:
    assert repr(float(edit_style.decimal(value, old))) == repr(value)


def test_infinity_is_no_decimal() -> None:
    with pytest.raises(UsageError, match="nan"):
        edit_style.decimal(float("nan"), "1")


def test_an_example_is_a_neighbour_first() -> None:
    entries = read(b'{"a": {"x": 1_0, "y": 2}, "b": 3.5, "c": 4}'.replace(b"1_0", b"10"), "file").entries
    assert edit_style.example(entries, ("a",), 7) == "2"
    assert edit_style.example(entries, ("z",), 7) == "4"
    assert edit_style.example(entries, (), 0.1) == "3.5"
    assert edit_style.example(entries, (), "x") == ""


def test_lines() -> None:
    text = "\ufeffa\r\n \tb\n\nc"
    assert [edit_style.line_end(text, place) for place in (0, 1, 2, 4, 8, 9)] == [2, 2, 2, 7, 8, 10]
    assert edit_style.indent(text, 6) == " \t" and edit_style.indent(text, 8) == ""
    assert edit_style.starts_line(text, 1) and edit_style.starts_line(text, 6) and not edit_style.starts_line(text, 7)
    assert [edit_style.line_break(text, place) for place in (0, 6, 9)] == ["\r\n", "\r\n", "\n"]
    assert edit_style.line_break("a", 1) == "\n"
