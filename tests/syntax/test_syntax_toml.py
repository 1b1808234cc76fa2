from __future__ import annotations

import datetime
import tomllib

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
    same_value,
    texts,
    values,
)

from autotune.errors import UsageError
from autotune.model.source import Document
from autotune.syntax import toml

SAMPLE = '''# torchtitan
title = "é/日本" # a name
[training]
steps = 1_000
"quoted \\"key\\"".lr = 3e-4
mesh = [1, 2, # of ranks
  {name = "dp", size.max = -1}, [], [
]]
when = 1979-05-27 07:32:00Z
text = """a "quoted" \\
   b"""""
raw = \'\'\'c:\\path''\'\'\'
[[data]]
path = 'x#y'
[[data.parts]]
size = inf
[[data]]
path = ""
[[data.parts]]
size = 0x1F
[[data.parts]]
size = true
empty = {}
[nothing]
'''
FRAGMENTS = [
    "a",
    "b",
    "a.b",
    '"k"',
    "'s'",
    " = ",
    "1",
    "1.5",
    "true",
    "[",
    "]",
    "[[",
    "]]",
    "{",
    "}",
    ", ",
    "\n",
    "\r\n",
]
FRAGMENTS += [
    "#c\n",
    '"""',
    "'''",
    '"',
    "'",
    "\\",
    "é",
    "1979-05-27",
    " 07:32:00",
    "x=1\n",
    "[t]\n",
    "[[l]]\n",
    "\t",
    "-",
]


def read(data: bytes) -> Document:
    return toml.read(data, "file")


def test_every_value_has_its_place() -> None:
    document = read(SAMPLE.encode())
    check_places(SAMPLE.encode(), document)
    assert values(document) == {
        "title": "é/日本",
        "training.steps": 1000,
        'training.quoted "key".lr': 3e-4,
        "training.mesh.0": 1,
        "training.mesh.1": 2,
        "training.mesh.2.name": "dp",
        "training.mesh.2.size.max": -1,
        "training.mesh.3": (),
        "training.mesh.4": (),
        "training.when": "1979-05-27 07:32:00Z",
        "training.text": 'a "quoted" b""',
        "training.raw": "c:\\path''",
        "data.0.path": "x#y",
        "data.0.parts.0.size": float("inf"),
        "data.1.path": "",
        "data.1.parts.0.size": 31,
        "data.1.parts.1.size": True,
        "data.1.parts.1.empty": (),
    }
    assert entry(document, "training.steps").text == "1_000"
    assert (entry(document, "training.mesh.2.name").line, entry(document, "training.mesh.2.name").column) == (7, 11)


def test_comments_are_kept_and_belong_to_the_values_of_their_line() -> None:
    document = read(SAMPLE.encode())
    assert [(comment.line, comment.text, comment.is_own_line) for comment in document.comments] == [
        (1, "torchtitan", True),
        (2, "a name", False),
        (6, "of ranks", False),
    ]
    assert entry(document, "training.mesh.1").comment == "of ranks"


@pytest.mark.parametrize("file", [BOM + SAMPLE.encode(), SAMPLE.replace("\n", "\r\n").encode()])
def test_places_count_bytes_of_the_file_as_it_is_stored(file: bytes) -> None:
    check_places(file, read(file))
    assert values(read(file)) == values(read(SAMPLE.encode()))


def test_an_edit_at_a_place_changes_that_value_only() -> None:
    check_locality(SAMPLE.encode(), read)
    check_locality(BOM + SAMPLE.replace("\n", "\r\n").encode(), read, '"x"', "x")


@pytest.mark.parametrize(
    ("file", "where", "what"),
    [
        (b"a = ", "file:1:5", "expected a value"),
        (b"a 1", "file:1:3", "expected '='"),
        (b"= 1", "file:1:1", "expected a key"),
        (b"a = 1 b = 2", "file:1:7", "expected the end of the line"),
        (b"[a\nb = 1", "file:1:3", "expected ']'"),
        (b"a = [1 2]", "file:1:8", "expected ',' or ']'"),
        (b"a = 1\na = 2", "file:2:1", "Cannot overwrite a value"),
        (b"a = 1.2.3", "file:1:8", "Expected newline or end of document after a statement"),
        (b'"\\q" = 1', "file:1:6", "Unescaped '\\' in a string"),
        (b"a = " + b"9" * 5000, "file:1:1", "Exceeds the limit"),
        (b"a = " + b"[" * 100_000, "file:1:105", "too deeply nested"),
        (b"a" + b".a" * 100_000, "file:1:202", "too deeply nested"),
        (b"a = [" + b"1," * 60_000, "file:1:100008", "more than 50000 values"),
    ],
)
def test_a_broken_file_is_an_error_with_its_place(file: bytes, where: str, what: str) -> None:
    with pytest.raises(UsageError, match=f"^{where}: ") as error:
        read(file)
    assert error.value.what.startswith(what)


@given(st.binary(max_size=30) | texts(FRAGMENTS).map(str.encode) | mutants(SAMPLE.encode()))
def test_any_bytes_are_read_as_tomllib_does_or_refused_with_a_place(file: bytes) -> None:
    if error_of(lambda: read(file)) is not None:
        with pytest.raises(ValueError):  # nothing that tomllib takes is refused
            tomllib.loads(file.decode("utf-8-sig"))
        return
    check_places(file, read(file))
    expected = {path: value for path, value in flat(tomllib.loads(file.decode("utf-8-sig"))).items() if value != ()}
    found = {e.path: e.value for e in read(file).entries if e.value != ()}
    assert found.keys() == expected.keys()
    for path, value in expected.items():
        is_date = isinstance(value, datetime.date | datetime.time)
        assert isinstance(found[path], str) if is_date else same_value(found[path], value)


@pytest.mark.parametrize(
    "written",
    ['"""a "b" c"""', '"""a ""b"" """', '"""a\n"b\\"" c"""', "'''a 'b' c'''", "'''a ''b'' c'''", '"""a " """'],
)
def test_quotes_inside_strings_of_several_lines(written):
    text = f"a = {written}\nb = 1\n"
    assert list(values(read(text.encode())).values()) == list(tomllib.loads(text).values())
