from __future__ import annotations

import pytest

from autotune.errors import UsageError
from autotune.model.evidence import Span
from autotune.model.source import Document, Splice
from autotune.syntax import json
from autotune.syntax.edit_effect import confirm, insertion_point, parsed_values, spliced

DATA = b'{"a": 1, "b": {}, "c": null}'


def read(data: bytes) -> Document:
    return json.read(data, "file")


def test_the_wanted_change_alone_is_confirmed() -> None:
    confirm(DATA, Splice(Span(6, 7), "2"), read, ("a",), 2)
    confirm(DATA, Splice(Span(15, 15), '"k": 2'), read, ("b", "k"), 2)


@pytest.mark.parametrize(
    ("splice", "why"),
    [
        (Splice(Span(6, 7), "2.0"), "would also change a"),
        (Splice(Span(6, 7), '2, "d": 3'), "would also change d"),
        (Splice(Span(9, 18), '"a": 2, '), "would also change b"),
        (Splice(Span(6, 7), '"'), "cannot be written here"),
    ],
)
def test_anything_else_is_refused(splice: Splice, why: str) -> None:
    with pytest.raises(UsageError, match=why):
        confirm(DATA, splice, read, ("a",), 2)


def test_room_is_in_the_deepest_mapping() -> None:
    taken = parsed_values(read(b'{"a": {"b": {"c": 1}}, "d": 2}'))
    assert taken == {("a",), ("a", "b"), ("a", "b", "c"), ("d",)}
    mappings = [(), ("a",), ("a", "b")]
    assert insertion_point(taken, mappings, ("a", "b", "k")) == (("a", "b"), ("k",))
    assert insertion_point(taken, mappings, ("a", "x", "k")) == (("a",), ("x", "k"))
    assert insertion_point(taken, mappings, ("k",)) == ((), ("k",))
    for path in (("a", "b"), ("d", "k"), ("x", 0, "k")):
        with pytest.raises(UsageError, match="cannot be added"):
            insertion_point(taken, mappings, path)


def test_a_splice_counts_bytes() -> None:
    assert spliced("é = 1".encode(), Splice(Span(5, 6), "ü")) == "é = ü".encode()
