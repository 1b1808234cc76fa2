from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from ruamel.yaml import YAML
from syntax_builders import (
    BOM,
    check_locality,
    check_places,
    entry,
    error_of,
    flat,
    mutants,
    of,
    same,
    texts,
    values,
)

from autotune.errors import UsageError
from autotune.model.source import Document
from autotune.syntax import yaml

SAMPLE = """%YAML 1.1
--- # of a run
model: é/日本   # a name
"quoted key": 'it''s'
lr: 3e-4
steps: 1_000
empty:
optim: {name: "adam\\tw", betas: [0.9, 0.95,], extra: {}, }
data:
- path: ${root}/x # y
  url: http://x/#y
- - nested
  -
    next line
text: |
  # no comment
  two: lines

folded: >-
  a
  b
tagged: !!float 5
own: !env HOME
# the end
"""
FRAGMENTS = ["a", "b", "k", "1", "1.5", "3e-4", "yes", "~", '"q"', "'s'", "é", ": ", ":", " ", "  ", "\n", "\n  ", "- "]
FRAGMENTS += ["[", "]", "{", "}", ", ", "# c\n", " # c", "&x ", "*x", "!!str ", "!t ", "|\n  ", ">-\n  ", "\t", "---\n"]
FRAGMENTS += ["...\n", "? ", "<<: ", '"', "'", "\r\n", "\\", "${a}", "%YAML 1.1\n", "\ufeff", "\x85", "!!float ", "@"]


def read(data: bytes) -> Document:
    return yaml.read(data, "file")


def test_every_value_has_its_place() -> None:
    document = read(SAMPLE.encode())
    check_places(SAMPLE.encode(), document)
    assert values(document) == {
        "model": "é/日本",
        "quoted key": "it's",
        "lr": "3e-4",
        "steps": 1000,
        "empty": None,
        "optim.name": "adam\tw",
        "optim.betas.0": 0.9,
        "optim.betas.1": 0.95,
        "optim.extra": (),
        "data.0.path": "${root}/x",
        "data.0.url": "http://x/#y",
        "data.1.0": "nested",
        "data.1.1": "next line",
        "text": "# no comment\ntwo: lines\n",
        "folded": "a b",
        "tagged": 5.0,
        "own": "HOME",
    }
    written = {key: entry(document, key).text for key in ("quoted key", "empty", "optim.extra", "text", "tagged")}
    assert written == {
        "quoted key": "'it''s'",
        "empty": "",
        "optim.extra": "{}",
        "text": "|\n  # no comment\n  two: lines",
        "tagged": "5",
    }


def test_comments_are_kept_and_belong_to_the_values_of_their_line() -> None:
    document = read(SAMPLE.encode())
    assert [(comment.line, comment.text, comment.is_own_line) for comment in document.comments] == [
        (2, "of a run", False),
        (3, "a name", False),
        (10, "y", False),
        (24, "the end", True),
    ]
    assert entry(document, "model").comment == "a name"
    assert entry(document, "data.0.path").comment == "y"


@pytest.mark.parametrize("file", [BOM + SAMPLE.encode(), SAMPLE.replace("\n", "\r\n").encode()])
def test_places_count_bytes_of_the_file_as_it_is_stored(file: bytes) -> None:
    check_places(file, read(file))
    assert same(values(read(file)), values(read(SAMPLE.encode())))


def test_an_edit_at_a_place_changes_that_value_only() -> None:
    file = SAMPLE.replace("!!float ", "").replace("!env ", "").encode()
    check_locality(file, read)
    check_locality(BOM + file.replace(b"\n", b"\r\n"), read, '"x"', "x")


def test_a_mapping_in_braces_is_read_with_its_comments() -> None:
    file = b'# gpt-neox\n{\n  # sizes\n  "layers": 12, # many\n  "fp16": {"enabled": True,},\n}\n'
    document = read(file)
    assert values(document) == {"layers": 12, "fp16.enabled": True}
    assert [comment.text for comment in document.comments] == ["gpt-neox", "sizes", "many"]
    check_locality(file, read)


def test_an_alias_of_a_scalar_stands_where_it_is_written() -> None:
    file = b"a: &x 8\nb: *x\nc: [*x, &e []]\nd: *e\n"
    document = read(file)
    assert [(e.key, e.value, e.text) for e in document.entries] == [
        ("a", 8, "8"),
        ("b", 8, "*x"),
        ("c.0", 8, "*x"),
        ("c.1", (), "[]"),
        ("d", (), "*e"),
    ]


def test_values_in_an_aliased_mapping_share_the_place_of_their_anchor() -> None:
    document = read(b"base: &b {lr: 1, wd: 2}\nrun: *b\n")
    assert values(document) == {"base.lr": 1, "base.wd": 2, "run.lr": 1, "run.wd": 2}
    assert entry(document, "run.lr").span == entry(document, "base.lr").span


def test_a_merged_mapping_gives_what_is_not_given() -> None:
    document = read(b"a: &a {x: 1, y: 1, z: 1}\nb: &b {y: 2, w: 2}\nc:\n  x: 3\n  <<: [*b, *a]\nd: {<<: []}\n")
    found = {key: value for key, value in values(document).items() if key[0] in "cd"}
    assert found == {"c.x": 3, "c.y": 2, "c.w": 2, "c.z": 1, "d": ()}
    assert values(read(b'a: {"<<": 1}')) == {"a.<<": 1}


def test_the_last_of_two_equal_keys_counts() -> None:
    document = read(b"a: {b: 1}\nc: 1\na: 2\n")
    assert {e.key: (e.value, e.line) for e in document.entries} == {"a": (2, 3), "c": (1, 2)}


def test_only_the_first_document_is_read() -> None:
    document = read(b"a: 1 # x\n---\nb: [ # y\n")
    assert (values(document), [comment.text for comment in document.comments]) == ({"a": 1}, ["x"])


@pytest.mark.parametrize("file", [b"", b"# only this\n", BOM, b"---\n"])
def test_an_empty_file_has_no_values_but_null(file: bytes) -> None:
    assert list(values(read(file)).values()) in ([], [None])


def test_a_tag_is_never_followed(tmp_path: Path) -> None:
    marker = tmp_path / "ran"
    file = f'a: !!python/object/apply:os.system ["touch {marker}"]\nb: !!python/name:os.system\n'.encode()
    assert values(read(file)) == {"a.0": f"touch {marker}", "b": ""}
    assert not marker.exists()


def test_the_version_decides_how_plain_text_is_typed() -> None:
    file = b"{lr: 3e-4, on: on}"
    assert values(yaml.read(file, "file")) == {"lr": "3e-4", "on": True}
    assert values(yaml.read(file, "file", version="1.2")) == {"lr": 3e-4, "on": "on"}


@pytest.mark.parametrize(
    ("file", "where", "what"),
    [
        (b"a: b\n\tc: d", "file:2:1", "found character '\\t' that cannot start any token"),
        (b"a: [1", "file:1:6", "expected ',' or ']', but got '<stream end>'"),
        (b"a: *b", "file:1:4", "the alias *b without an anchor before it"),
        (b"a: &a [*a]", "file:1:8", "the alias *a without an anchor before it"),
        (b"lr: {{ lr }}", "file:1:6", "a key that is a list or a mapping (a template?)"),
        (b"<<: 1", "file:1:5", "only a mapping can be merged by <<"),
        (b'a: "\\ud800"', "file:1:4", "an escape that is half of a character"),
        (b"a: \x01", "file:1:4", "special characters are not allowed"),
        (b"[" * 100_000, "file:1:102", "too deeply nested"),
        (b"- 1\n" * 100_001, "file:100000:3", "more than 50000 values"),
    ],
)
def test_a_broken_file_is_an_error_with_its_place(file: bytes, where: str, what: str) -> None:
    with pytest.raises(UsageError) as error:
        read(file)
    assert (error.value.where, error.value.what) == (where, what)


@pytest.mark.parametrize("template", ["{}: &{} [*{}, *{}, *{}, *{}]", "{}: &{} {{<<: [*{}, *{}, *{}, *{}]}}"])
def test_aliases_of_aliases_are_stopped(template: str) -> None:
    names = [f"x{number}" for number in range(50)]
    lines = [template.format(name, name, *[before] * 4) for before, name in pairwise(names)]
    with pytest.raises(UsageError, match="more than 50000 values"):
        read("\n".join(["x0: &x0 {a: 1}", *lines]).encode())


def test_a_chain_of_aliases_is_stopped() -> None:
    lines = [f"x{number}: &x{number} [*x{number - 1}]" for number in range(1, 200)]
    with pytest.raises(UsageError, match="too deeply nested"):
        read("\n".join(["x0: &x0 {a: 1}", *lines]).encode())


DATA = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(st.characters(codec="utf-8"), max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text("aé :#-'\n", max_size=3), inner, max_size=3),
    max_leaves=10,
)


@given(DATA, st.sampled_from([None, True, False]), st.booleans())
def test_values_are_those_of_pyyaml(value: object, flow: bool | None, all_unicode: bool) -> None:
    pyyaml = pytest.importorskip("yaml")
    file = pyyaml.safe_dump(value, default_flow_style=flow, allow_unicode=all_unicode, width=20).encode()
    if error_of(lambda: read(file)) is None:
        check_places(file, read(file))
        assert same(of(read(file)), flat(pyyaml.safe_load(file)))


@given(texts(FRAGMENTS), st.sampled_from(["1.1", "1.2"]))
def test_broken_text_is_read_as_the_libraries_do_or_refused(text: str, version: str) -> None:
    file = text.encode()
    if error_of(lambda: yaml.read(file, "file", version=version)) is None:
        check_places(file, yaml.read(file, "file", version=version))


@given(st.binary(max_size=30) | mutants(SAMPLE.encode()))
def test_any_bytes_are_read_or_refused_with_a_place(file: bytes) -> None:
    error_of(lambda: check_places(file, read(file)))


def test_the_sample_is_what_ruamel_makes_of_it() -> None:
    text = SAMPLE.replace("%YAML 1.1\n", "").replace("!env ", "")
    expected = flat(YAML(typ="safe", pure=True).load(text))
    assert same(of(yaml.read(text.encode(), "file", version="1.2")), expected)
