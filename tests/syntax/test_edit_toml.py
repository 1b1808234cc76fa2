from __future__ import annotations

import tomllib

import pytest
from edit_builders import SCALARS, changed, check_added, check_changes, parents, toml_files
from hypothesis import given, settings
from hypothesis import strategies as st
from syntax_builders import entry

from autotune.errors import UsageError
from autotune.model.source import Document, Path, Scalar
from autotune.syntax import edit_toml, toml


def read(data: bytes) -> Document:
    return toml.read(data, "file")


def added(data: str, key: str, value: Scalar) -> str:
    parent = tuple(int(part) if part.isdigit() else part for part in key.split("."))
    return changed(data.encode(), edit_toml.inserted(data.encode(), "file", parent[:-1], "k", value)).decode()


@pytest.mark.parametrize(
    ("old", "value", "new"),
    [
        ("1", 16, "16"),
        ("1_000", 2048, "2_048"),
        ("1e-3", 3e-4, "3e-4"),
        ("8e-4", 1e-5, "1e-5"),
        ("0.1", 3e-4, "0.0003"),
        ("0.1", float("-inf"), "-inf"),
        ("true", False, "false"),
        ('"x"', 'a"b', '"a\\"b"'),
        ("'x'", "bf16", "'bf16'"),
        ("'x'", "it's", '"it\'s"'),
        ("1979-05-27", 4, "4"),
    ],
)
def test_a_value_is_written_in_the_style_of_the_old(old: str, value: Scalar, new: str) -> None:
    data = f"[t]\na = {old} # why\nb = 1\n".encode()
    assert (
        changed(data, edit_toml.replaced(entry(read(data), "t.a"), value)).decode() == f"[t]\na = {new} # why\nb = 1\n"
    )


def test_toml_has_no_null() -> None:
    with pytest.raises(UsageError, match="null"):
        edit_toml.replaced(read(b"a = 1").entries[0], None)


@pytest.mark.parametrize(
    ("data", "key", "expected"),
    [
        ("", "k", "k = 1\n"),
        ("[a]\nb = 2\n", "k", "k = 1\n\n[a]\nb = 2\n"),
        ("a = 2 # x\n[t]\n", "k", "a = 2 # x\nk = 1\n[t]\n"),
        ("[a]\n  b = 2 # x\n\n[c]\n", "a.k", "[a]\n  b = 2 # x\n  k = 1\n\n[c]\n"),
        ("[a] # x\r\n[c]\r\n", "a.k", "[a] # x\r\nk = 1\r\n[c]\r\n"),
        ("[a]\nb = [\n 1,\n]\n", "a.k", "[a]\nb = [\n 1,\n]\nk = 1\n"),
        ("a = {b = 2}\n", "a.k", "a = {b = 2, k = 1}\n"),
        ("a = {}\n", "a.k", "a = {k = 1}\n"),
        ("a.b = 2\nc = 3\n", "a.k", "a.b = 2\na.k = 1\nc = 3\n"),
        ("[t]\na.b = 2\n", "t.a.k", "[t]\na.b = 2\na.k = 1\n"),
        ("[a.b]\nc = 2\n", "a.k", "[a.b]\nc = 2\n\n[a]\nk = 1\n"),
        ("[a]\nb = 2", "x.y.k", "[a]\nb = 2\n\n[x.y]\nk = 1"),
        ("[[a]]\nb = 2\n[[a]]\nb = 3\n", "a.0.k", "[[a]]\nb = 2\nk = 1\n[[a]]\nb = 3\n"),
    ],
)
def test_a_key_is_added_in_the_style_of_the_table(data: str, key: str, expected: str) -> None:
    assert added(data, key, 1) == expected


@pytest.mark.parametrize(
    ("data", "key", "why"),
    [
        ("k = 2\n", "k", "stands there already"),
        ("[k]\na = 2\n", "k", "stands there already"),
        ("x = 2\n", "x.k", "x stands there already"),
        ("[[x]]\na = 1\n", "x.k", "would also change|cannot be written"),
    ],
)
def test_what_cannot_be_added_is_refused(data: str, key: str, why: str) -> None:
    with pytest.raises(UsageError, match=why):
        added(data, key, 1)


@settings(deadline=None)
@given(toml_files(), SCALARS)
def test_every_value_of_any_file_can_be_changed(data: bytes, value: Scalar) -> None:
    check_changes(data, read, edit_toml.replaced, value)


@settings(deadline=None)
@given(toml_files(), st.data(), SCALARS)
def test_a_key_can_be_added_to_any_table(data: bytes, draw: st.DataObject, value: Scalar) -> None:
    tree = tomllib.loads(data.decode("utf-8-sig"))
    path: Path = (*draw.draw(st.sampled_from(parents(tree))), *draw.draw(st.sampled_from([["NEW"], ["NEW", "it"]])))
    try:
        new = changed(data, edit_toml.inserted(data, "file", path[:-1], str(path[-1]), value))
    except UsageError:
        assert any(isinstance(part, int) for part in path)  # a table below one of an array, and not of the last
        return
    check_added(tree, tomllib.loads(new.decode("utf-8-sig")), path, value)
