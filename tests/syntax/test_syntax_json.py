from __future__ import annotations

import json as reference

import pytest
from hypothesis import given
from hypothesis import strategies as st
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
from autotune.syntax import json

SAMPLE = """{
\t"fp16": {"enabled": "auto", "loss_scale": 0}, // of DeepSpeed
\t# a comment
\t"é": [1, -2.5e-3, {"x": null}, [], {}], /* two
\tlines */ "lr": 3e-4,
\t"nan": NaN, "inf": -Infinity, "yes": true,
}
""".encode()
FRAGMENTS = ['{"a": 1}', "{", "}", "[", "]", ",", ":", '"', '"k"', '"é"', "1", "-", "1e3", ".5", "NaN", "null"]
FRAGMENTS += ["//", "#", "/*", "*/", "\n", "\t", "\\", '"\\u00e9"', '"\\ud800"', '"\\x"', "\ufeff", "'a'", "0" * 5000]


def read(data: bytes) -> json.Document:
    return json.read(data, "file")


def test_every_value_has_its_place() -> None:
    document = read(SAMPLE)
    check_places(SAMPLE, document)
    assert values(document) | {"nan": 0} == {
        "fp16.enabled": "auto",
        "fp16.loss_scale": 0,
        "é.0": 1,
        "é.1": -2.5e-3,
        "é.2.x": None,
        "é.3": (),
        "é.4": (),
        "lr": 3e-4,
        "nan": 0,
        "inf": float("-inf"),
        "yes": True,
    }
    assert (entry(document, "lr").line, entry(document, "lr").column) == (5, 17)
    assert entry(document, "fp16.enabled").text == '"auto"'


def test_comments_are_kept_and_belong_to_the_values_of_their_line() -> None:
    document = read(SAMPLE)
    assert [(comment.line, comment.text, comment.is_own_line) for comment in document.comments] == [
        (2, "of DeepSpeed", False),
        (3, "a comment", True),
        (4, "two\n\tlines", False),
    ]
    assert entry(document, "fp16.loss_scale").comment == "of DeepSpeed"
    assert entry(document, "lr").comment == ""


@pytest.mark.parametrize("file", [BOM + SAMPLE, SAMPLE.replace(b"\n", b"\r\n")])
def test_places_count_bytes_of_the_file_as_it_is_stored(file: bytes) -> None:
    check_places(file, read(file))
    assert same(values(read(file)), values(read(SAMPLE)))


def test_an_edit_at_a_place_changes_that_value_only() -> None:
    check_locality(SAMPLE, read)
    check_locality(BOM + SAMPLE.replace(b"\n", b"\r\n"), read, '"x"', "x")


def test_the_last_of_two_equal_keys_counts() -> None:
    file = b'{"a": {"b": 1}, "a": 2}'
    assert [(entry.key, entry.value, entry.column) for entry in read(file).entries] == [("a", 2, 22)]


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(st.characters(exclude_categories=["Cs"])),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text('aé."\n', max_size=3), inner, max_size=3),
    max_leaves=10,
)


@given(JSON, st.booleans(), st.sampled_from([None, 1, "\t"]))
def test_values_are_those_of_the_json_module(value: object, is_ascii: bool, indent: int | str | None) -> None:
    file = reference.dumps(value, ensure_ascii=is_ascii, indent=indent).encode()
    for lenient in (True, False):
        document = json.read(file, "file", lenient=lenient)
        check_places(file, document)
        assert same(of(document), flat(value))


@given(st.binary(max_size=30) | texts(FRAGMENTS).map(str.encode) | mutants(SAMPLE))
def test_any_bytes_are_read_or_refused_with_a_place(file: bytes) -> None:
    if error_of(lambda: check_places(file, read(file))) is None:
        return
    with pytest.raises(
        (ValueError, RecursionError)
    ):  # the json module refuses it, or it is no text that can be written
        value = reference.loads(file.decode("utf-8-sig"), object_pairs_hook=list)
        reference.dumps(value, ensure_ascii=False).encode()


@pytest.mark.parametrize(
    ("file", "where", "what"),
    [
        (b"", "file:1:1", "expected a value"),
        (b"{", "file:1:2", "expected a key in double quotes"),
        (b'{"a" 1}', "file:1:6", "expected ':' after the key"),
        (b'{"a": 1\n "b": 2}', "file:2:2", "expected ',' or '}'"),
        (b"[1 2]", "file:1:4", "expected ',' or ']'"),
        (b'{"a": tru}', "file:1:7", "expected a value"),
        (b'["a', "file:1:2", "a string without an end"),
        (b'["\\q"]', "file:1:3", "Invalid \\escape"),
        (b'["\\ud800"]', "file:1:2", "an escape that is half of a character"),
        (b"{} {}", "file:1:4", "text after the end of the value"),
        (b"[" + b"9" * 5000, "file:1:2", "a number of too many digits"),
        (b"[" * 100_000, "file:1:102", "too deeply nested"),
        (b"[" + b"1," * 60_000, "file:1:100000", "more than 50000 values"),
        (b"/* no end", "file:1:1", "expected a value"),
    ],
)
def test_a_broken_file_is_an_error_with_its_place(file: bytes, where: str, what: str) -> None:
    with pytest.raises(UsageError) as error:
        read(file)
    assert (error.value.where, error.value.what) == (where, what)


@pytest.mark.parametrize("file", [b'{"a": 1,}', b"[1] // c", b'["a\tb"]', b"[" * 5000, b"9" * 5000])
def test_a_strict_reader_takes_what_the_json_module_takes(file: bytes) -> None:
    with pytest.raises(UsageError):
        json.read(file, "file", lenient=False)
