from __future__ import annotations

import pytest
from edit_builders import SCALARS, changed, check_added, check_changes, json_files, parents
from hypothesis import given, settings
from hypothesis import strategies as st
from syntax_builders import entry, flat, of, same

from autotune.errors import UsageError
from autotune.model.source import Document, Path, Scalar
from autotune.syntax import edit_json, json


def read(data: bytes) -> Document:
    return json.read(data, "file")


def added(data: str, key: str, value: Scalar) -> str:
    *parent, name = key.split(".")
    return changed(data.encode(), edit_json.inserted(data.encode(), "file", tuple(parent), name, value)).decode()


@pytest.mark.parametrize(
    ("old", "value", "new"),
    [
        ("1", 16, "16"),
        ("1e-3", 3e-4, "3e-4"),
        ("1.0e-3", 3e-4, "3.0e-4"),
        ("0.1", 3e-4, "0.0003"),
        ("5e-5", 5e-5, "5e-5"),
        ('"auto"', 8, "8"),
        ("true", False, "false"),
        ("1", None, "null"),
        ("0", float("inf"), "Infinity"),
        ('"a"', 'é"', '"é\\""'),
    ],
)
def test_a_value_is_written_in_the_style_of_the_old(old: str, value: Scalar, new: str) -> None:
    data = f'{{"a": {old}, "b": 1}}'.encode()
    assert changed(data, edit_json.replaced(entry(read(data), "a"), value)) == f'{{"a": {new}, "b": 1}}'.encode()


@pytest.mark.parametrize(
    ("data", "key", "expected"),
    [
        ("{}", "k", '{"k": 1}'),
        ("{ }\n", "k", '{ "k": 1 }\n'),
        ("{\n}\n", "k", '{\n  "k": 1\n}\n'),
        ("{/* no */}", "k", '{"k": 1/* no */}'),
        ('{"a": 2}', "k", '{"a": 2, "k": 1}'),
        ('{"a":2,"b":3}', "k", '{"a":2,"b":3,"k":1}'),
        ('{\n\t"a": 2\n}', "k", '{\n\t"a": 2,\n\t"k": 1\n}'),
        ('{\r\n  "a": 2 // x\r\n}', "k", '{\r\n  "a": 2, // x\r\n  "k": 1\r\n}'),
        ('{\n  "a": 2, // x\n}', "k", '{\n  "a": 2, // x\n  "k": 1,\n}'),
        ('{\n  "a": 2, }', "k", '{\n  "a": 2,\n  "k": 1, }'),
        ('{\n  "a": {"b": 2}\n}', "a.k", '{\n  "a": {"b": 2, "k": 1}\n}'),
        ('{"a": 2}', "x.y.k", '{"a": 2, "x": {"y": {"k": 1}}}'),
        ('{\n "a": 2\n}', "x.y.k", '{\n "a": 2,\n "x": {\n  "y": {\n   "k": 1\n  }\n }\n}'),
        ('{"x": [2, {}]}', "k", '{"x": [2, {}], "k": 1}'),
    ],
)
def test_a_key_is_added_in_the_style_of_the_object(data: str, key: str, expected: str) -> None:
    assert added(data, key, 1) == expected


@pytest.mark.parametrize(
    ("data", "key", "why"),
    [
        ('{"k": 2}', "k", "k stands there already"),
        ('{"k": {"a": 1}}', "k", "k stands there already"),
        ('{"x": true}', "x.k", "x stands there already"),
        ("[1]", "k", "nothing that could hold it"),
    ],
)
def test_what_cannot_be_added_is_refused(data: str, key: str, why: str) -> None:
    with pytest.raises(UsageError, match=why):
        added(data, key, 1)


@settings(deadline=None)
@given(json_files(), SCALARS | st.none())
def test_every_value_of_any_file_can_be_changed(data: bytes, value: Scalar) -> None:
    check_changes(data, read, edit_json.replaced, value)


@settings(deadline=None)
@given(json_files(), st.data(), SCALARS)
def test_a_key_can_be_added_to_any_object(data: bytes, draw: st.DataObject, value: Scalar) -> None:
    tree = tree_of(data)
    path: Path = (*draw.draw(st.sampled_from(parents(tree))), *draw.draw(st.sampled_from([["NEW"], ["NEW", "it"]])))
    new = changed(data, edit_json.inserted(data, "file", path[:-1], str(path[-1]), value))
    check_added(tree, tree_of(new), path, value)


def tree_of(data: bytes) -> object:
    """What the reader sees, as a tree; the reader is tested against json.loads."""
    tree: object = {}
    for one in read(data).entries:
        tree = put(tree, one.path, {} if one.value == () and one.text.startswith("{") else one.value)
    assert same(flat(tree), of(read(data)))
    return tree


def put(tree: object, path: Path, value: object) -> object:
    if not path:
        return [] if value == () else value
    if isinstance(path[0], int):
        items = list(tree) if isinstance(tree, list) else []
        old = items[path[0]] if path[0] < len(items) else {}
        return [*items[: path[0]], put(old, path[1:], value), *items[path[0] + 1 :]]
    members = dict(tree) if isinstance(tree, dict) else {}
    return {**members, path[0]: put(members.get(path[0], {}), path[1:], value)}
