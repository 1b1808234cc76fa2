"""What holds for every reader: places are exact, an edit at one of them changes nothing else, errors have a place."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from hypothesis import strategies as st

from autotune.errors import UsageError
from autotune.model.source import DataValue, Document

Read = Callable[[bytes], Document]

BOM = b"\xef\xbb\xbf"


def values(document: Document) -> dict[str, Any]:
    """The values of a document by their dotted key."""
    return {entry.key: entry.value for entry in document.entries}


def check_places(data: bytes, document: Document) -> None:
    """Span, text, line and column of every entry say the same."""
    for entry in document.entries:
        before = data[: entry.span.start].decode("utf-8-sig")
        lines = re.split(r"\r\n|\r|\n", before)
        assert data[entry.span.start : entry.span.end].decode() == entry.text
        assert (entry.line, entry.column) == (len(lines), len(lines[-1]) + 1)


def check_locality(data: bytes, read: Read, written: str = "77", value: object = 77) -> None:
    """Another scalar in the place of one value changes that value and no other."""
    before = read(data).entries
    for edited in before:
        start, end = edited.span.start, edited.span.end
        new = written if edited.text else f" {written}"
        after = {entry.path: entry.value for entry in read(data[:start] + new.encode() + data[end:]).entries}
        assert same(after, {entry.path: value if entry is edited else entry.value for entry in before}), edited


def same(one: Mapping[Any, Any], other: Mapping[Any, Any]) -> bool:
    """Equal in type and value, where NaN equals NaN."""
    return one.keys() == other.keys() and all(same_value(one[key], other[key]) for key in one)


def same_value(one: object, other: object) -> bool:
    return type(one) is type(other) and (one == other or (one != one and other != other))


def flat(value: object, path: tuple[str | int, ...] = ()) -> dict[tuple[str | int, ...], object]:
    """What a library loaded, as entries have it."""
    parts = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else None
    if parts is None or not value:
        return {path: value if parts is None else ()}
    return {key: leaf for part, inner in parts for key, leaf in flat(inner, (*path, part)).items()}


def of(document: Document) -> dict[tuple[str | int, ...], object]:
    return {entry.path: entry.value for entry in document.entries}


def error_of(read: Callable[[], object]) -> UsageError | None:
    """The UsageError of `read`, with a place; None when it gives a result. Anything else is a failure."""
    try:
        read()
    except UsageError as error:
        assert re.fullmatch(r"file:[1-9]\d*:[1-9]\d*", error.where), error.where
        assert error.what
        return error
    return None


def entry(document: Document, key: str) -> DataValue:
    (found,) = (entry for entry in document.entries if entry.key == key)
    return found


def texts(fragments: Sequence[str]) -> st.SearchStrategy[str]:
    """Text made of pieces of a syntax, most of it broken."""
    return st.lists(st.sampled_from(fragments), max_size=25).map("".join)


def mutants(sample: bytes) -> st.SearchStrategy[bytes]:
    """A file of which a stretch is replaced."""

    def mutant(start: int, length: int, new: bytes) -> bytes:
        return sample[:start] + new + sample[start + length :]

    return st.builds(mutant, st.integers(0, len(sample)), st.integers(0, 20), st.binary(max_size=4))
