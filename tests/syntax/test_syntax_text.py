from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from syntax_builders import BOM

from autotune.errors import UsageError
from autotune.syntax.text import decode


@given(
    st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=30), st.booleans(), st.data()
)
def test_a_span_is_the_bytes_of_the_characters(text: str, has_bom: bool, data: st.DataObject) -> None:
    file = BOM * has_bom + text.encode()
    read = decode(file, "file")
    start = data.draw(st.integers(0, len(read.text)))
    end = data.draw(st.integers(start, len(read.text)))
    span = read.span(start, end)
    assert file[span.start : span.end].decode() == read.text[start:end]


@pytest.mark.parametrize("line_break", ["\n", "\r\n", "\r"])
def test_lines_and_columns_count_from_1_in_characters(line_break: str) -> None:
    text = decode(f"é{line_break}{line_break}日本x".encode(), "file")
    place = text.text.index("x")
    assert (text.line(place), text.column(place)) == (3, 3)
    assert (text.line(0), text.column(0)) == (1, 1)


@pytest.mark.parametrize(
    ("data", "where", "what"),
    [
        (b"a: 1\nb\0", "file:2:2", "a null byte: this is not a text file"),
        (b"a: \xff", "file:1:4", "not text in UTF-8"),
        (BOM + b"\xc3\xa9\r\n\xe9", "file:2:1", "not text in UTF-8"),
        ("a: 1".encode("utf-16"), "file:1:4", "a null byte: this is not a text file"),
    ],
)
def test_what_is_no_text_is_an_error_with_its_place(data: bytes, where: str, what: str) -> None:
    with pytest.raises(UsageError) as error:
        decode(data, "file")
    assert (error.value.where, error.value.what) == (where, what)
