"""Edits change the bytes of their spans and nothing else."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from autotune.errors import UsageError
from autotune.model.evidence import Span
from autotune.model.patch import Edit
from autotune.patch.journal import sha256
from autotune.patch.splice import spliced

DATA = "α = 1\r\nβ = 22\r\n".encode()


def edit(start: int, end: int, new: str, data: bytes = DATA) -> Edit:
    return Edit("f.py", sha256(data), "key", Span(start, end), data[start:end].decode(), new)


def test_two_edits_in_any_order() -> None:
    first, second = edit(5, 6, "100"), edit(13, 15, "0")
    assert spliced(DATA, [second, first]) == "α = 100\r\nβ = 0\r\n".encode()


@pytest.mark.parametrize(
    ("before", "start", "end", "new", "after"),
    [
        (b"f(x)", 3, 3, (", a=1", ", b=2"), b"f(x, a=1, b=2)"),
        (b"f()", 2, 2, ("a=1", "b=2", "c=3"), b"f(a=1, b=2, c=3)"),
        (b"f( )", 2, 2, (" a=1", " b=2"), b"f( a=1, b=2 )"),
        (b"{\n}", 1, 1, ("\n  a: 1", "\n  b: 2"), b"{\n  a: 1,\n  b: 2\n}"),
        (b"f(**k)", 2, 2, ("a=1, ", "b=2, "), b"f(a=1, b=2, **k)"),
        (b"f(\n  x  # c\n)", 6, 11, (",  # c\n  a=1", ",  # c\n  b=2"), b"f(\n  x,  # c\n  a=1,\n  b=2\n)"),
        (b"a: 1\n", 4, 4, ("\nb: 2", "\nc: 3"), b"a: 1\nb: 2\nc: 3\n"),
    ],
)
def test_members_added_at_one_place_are_separated(
    before: bytes, start: int, end: int, new: tuple[str, ...], after: bytes
) -> None:
    assert spliced(before, [edit(start, end, each, before) for each in new]) == after


def test_two_values_for_one_place_are_refused() -> None:
    with pytest.raises(UsageError, match="overlap"):
        spliced(DATA, [edit(5, 6, "2"), edit(5, 6, "3")])


def test_a_span_beyond_the_end_is_refused() -> None:
    with pytest.raises(UsageError, match="5000 to 6000"):
        spliced(DATA, [edit(5000, 6000, "x")])


def test_an_edit_of_another_file_is_refused() -> None:
    with pytest.raises(UsageError, match="changed since the diagnosis"):
        spliced(DATA + b" ", [edit(5, 6, "2")])


def test_other_text_at_the_place_is_refused() -> None:
    wrong = Edit("f.py", sha256(DATA), "key", Span(5, 6), "7", "8")
    with pytest.raises(UsageError, match="are not '7'"):
        spliced(DATA, [wrong])


def test_edits_that_overlap_are_refused() -> None:
    with pytest.raises(UsageError, match="overlap"):
        spliced(DATA, [edit(13, 15, "1"), edit(14, 15, "2")])


@given(st.lists(st.integers(0, 40), min_size=2, max_size=8, unique=True), st.binary(min_size=41, max_size=41))
def test_bytes_outside_the_spans_stay(cuts: list[int], data: bytes) -> None:
    data = bytes(byte & 0x7F for byte in data)
    cuts = sorted(cuts[: len(cuts) // 2 * 2])
    spans = list(zip(cuts[::2], cuts[1::2], strict=True))
    result = spliced(data, [edit(start, end, "<>", data) for start, end in spans])
    expected = data
    for start, end in reversed(spans):
        expected = expected[:start] + b"<>" + expected[end:]
    assert result == expected
