from __future__ import annotations

from typing import Any

import pytest
from edit_builders import SCALARS, changed, check_added, check_changes, parents, yaml_files
from hypothesis import given, settings
from hypothesis import strategies as st
from ruamel.yaml import YAML
from syntax_builders import entry, flat, same

from autotune.errors import UsageError
from autotune.model.source import Document, Path, Scalar
from autotune.syntax import edit_yaml, yaml
from autotune.syntax.edit_effect import confirm


def read(data: bytes) -> Document:
    return yaml.read(data, "file")


def loaded(data: bytes) -> Any:
    """What a reader of YAML 1.2 makes of it."""
    return YAML(typ="safe", pure=True).load(data) or {}


def replaced(data: str, key: str, value: Scalar) -> str:
    return changed(data.encode(), edit_yaml.replaced(entry(read(data.encode()), key), value)).decode()


def added(data: str, key: str, value: Scalar) -> str:
    *parent, name = key.split(".")
    return changed(data.encode(), edit_yaml.inserted(data.encode(), "file", tuple(parent), name, value)).decode()


@pytest.mark.parametrize(
    ("old", "value", "new"),
    [
        ("1", 16, "16"),
        ("1_000", 2048, "2_048"),
        ("1e-3", 3e-4, "3.0e-4"),
        ("1.0e-3", 3e-4, "3.0e-4"),
        ("0.1", 3e-4, "0.0003"),
        ("0.1", 3e-5, "3.0e-5"),
        ("0.1", 1e20, "1.0e+20"),
        ("1.0", float("inf"), ".inf"),
        ("true", False, "false"),
        ("True", False, "False"),
        ("TRUE", False, "FALSE"),
        ("yes", False, "no"),
        ("Off", True, "On"),
        ("1", True, "true"),
        ("x", "bf16-mixed", "bf16-mixed"),
        ("x", "no", '"no"'),
        ("x", "3e-4", '"3e-4"'),
        ("x", "a: b", '"a: b"'),
        ("x", "s3://bucket/x", "s3://bucket/x"),
        ("'x'", "it's", "'it''s'"),
        ('"x"', "bf16", '"bf16"'),
        ("~", 4, "4"),
        ("1", None, "null"),
    ],
)
def test_a_value_is_written_in_the_style_of_the_old(old: str, value: Scalar, new: str) -> None:
    assert replaced(f"a: {old}  # why\nb: 1\n", "a", value) == f"a: {new}  # why\nb: 1\n"


def test_yes_is_a_text_in_yaml_1_2() -> None:
    data = b"a: yes\n"
    splice = edit_yaml.replaced(yaml.read(data, "file", version="1.2").entries[0], False, version="1.2")
    assert splice.text == "false"


@pytest.mark.parametrize("data", ["a:\nb: 1\n", "a:  # none\nb: 1\n", "b:\n  a:\n"])
def test_a_missing_value_is_written_behind_the_colon(data: str) -> None:
    key = "b.a" if data.startswith("b") else "a"
    assert replaced(data, key, 4) == data.replace("a:", "a: 4")


@pytest.mark.parametrize("data", ["a: ${x}\n", "a: dir/${x}\n", "a: |\n  text\n", "a: >-\n  text\n"])
def test_what_stands_elsewhere_or_in_a_block_is_refused(data: str) -> None:
    with pytest.raises(UsageError, match="a is"):
        replaced(data, "a", 4)


def test_an_alias_is_replaced_by_itself() -> None:
    assert replaced("a: &x 4\nb: *x\n", "b", 8) == "a: &x 4\nb: 8\n"


def test_an_anchor_changes_its_aliases_and_confirm_says_so() -> None:
    data = b"a: &x 4\nb: *x\n"
    splice = edit_yaml.replaced(entry(read(data), "a"), 8)
    with pytest.raises(UsageError, match="would also change b"):
        confirm(data, splice, read, ("a",), 8)


@pytest.mark.parametrize(
    ("data", "key", "expected"),
    [
        ("", "k", "k: 1\n"),
        ("# head\n", "x.k", "# head\nx:\n  k: 1\n"),
        ("---\n# no", "k", "---\n# no\nk: 1"),
        ("a: 2", "k", "a: 2\nk: 1"),
        ("a: 2\r\nb: 3 # x\r\n\r\n# end\r\n", "k", "a: 2\r\nb: 3 # x\r\nk: 1\r\n\r\n# end\r\n"),
        ("a:\n    b: 2\nc: 3\n", "a.k", "a:\n    b: 2\n    k: 1\nc: 3\n"),
        ("a:\n    b: 2\nc: 3\n", "x.k", "a:\n    b: 2\nc: 3\nx:\n    k: 1\n"),
        ("a:  # none\nc: 3\n", "a.k", "a:  # none\n  k: 1\nc: 3\n"),
        ("a: {}\n", "a.k", "a: {k: 1}\n"),
        ("a: {b: 2}\n", "a.x.k", "a: {b: 2, x: {k: 1}}\n"),
        ("{a: 2,\n b: 3}\n", "k", "{a: 2,\n b: 3,\n k: 1}\n"),
        ("a:\n- 2\n- 3\n", "k", "a:\n- 2\n- 3\nk: 1\n"),
        ("a: |\n  text\n\nb: 2\n", "k", "a: |\n  text\n\nb: 2\nk: 1\n"),
        ("a: 2\n---\nb: 3\n", "k", "a: 2\nk: 1\n---\nb: 3\n"),
        ("d: &d\n  k: 2\nt:\n  <<: *d\n  a: 3\n", "t.k", "d: &d\n  k: 2\nt:\n  <<: *d\n  a: 3\n  k: 1\n"),
    ],
)
def test_a_key_is_added_in_the_style_of_the_mapping(data: str, key: str, expected: str) -> None:
    assert added(data, key, 1) == expected


def test_a_key_is_added_to_a_mapping_in_a_list() -> None:
    splice = edit_yaml.inserted(b"a:\n  - b: 2\n  - b: 3\n", "file", ("a", 0), "k", True)
    assert changed(b"a:\n  - b: 2\n  - b: 3\n", splice) == b"a:\n  - b: 2\n    k: true\n  - b: 3\n"


@pytest.mark.parametrize(
    ("data", "value", "expected"),
    [
        ("a: True\n", False, "a: True\nk: False\n"),
        ("a: 'x'\n", "bf16", "a: 'x'\nk: 'bf16'\n"),
        ("a: 1.0e-4\n", 3e-4, "a: 1.0e-4\nk: 3.0e-4\n"),
        ("a: 1_000\n", 2048, "a: 1_000\nk: 2_048\n"),
    ],
)
def test_an_added_value_is_written_like_its_neighbours(data: str, value: Scalar, expected: str) -> None:
    assert added(data, "k", value) == expected


@pytest.mark.parametrize(
    ("data", "key", "why"),
    [
        ("k: 2\n", "k", "stands there already"),
        ("x: text\n", "x.k", "x stands there already"),
        ("- 1\n", "k", "nothing that could hold it"),
        ("a: &x {b: 1}\nc: *x\n", "c.k", "alias"),
        ("a: &x {b: 1}\nc: *x\n", "a.k", "would also change c"),
        ("a: |+\n  text\n\n\n", "k", "would also change a"),
    ],
)
def test_what_cannot_be_added_is_refused(data: str, key: str, why: str) -> None:
    with pytest.raises(UsageError, match=why):
        added(data, key, 1)


@settings(deadline=None)
@given(yaml_files(), SCALARS | st.none(), st.sampled_from(["1.1", "1.2"]))
def test_every_value_of_any_file_can_be_changed(data: bytes, value: Scalar, version: str) -> None:
    def read_as(data: bytes) -> Document:
        return yaml.read(data, "file", version=version)

    check_changes(data, read_as, edit_yaml.replaced, value)


@settings(deadline=None)
@given(yaml_files(), st.data(), SCALARS)
def test_a_key_can_be_added_to_any_mapping(data: bytes, draw: st.DataObject, value: Scalar) -> None:
    tree = loaded(data)
    path: Path = (*draw.draw(st.sampled_from(parents(tree))), *draw.draw(st.sampled_from([["NEW"], ["NEW", "it"]])))
    new = changed(data, edit_yaml.inserted(data, "file", path[:-1], str(path[-1]), value))
    check_added(tree, loaded(new), path, value)
    assert same(flat(loaded(new)), {one.path: one.value for one in read(new).entries})
