from __future__ import annotations

import ast
import io
import tokenize
import warnings
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from syntax_builders import BOM, error_of, mutants, texts

import autotune
from autotune.errors import UsageError
from autotune.syntax import python

SAMPLE = '''#!/usr/bin/env python
"""A doc string with a # in it."""
import torch  # of PyTorch
NAME = "é # no comment"; lr = 3e-4
# autotune: ignore[DL001] in memory
loader = DataLoader(
    data, "日本", num_workers=0,  # none
)
def f(x: int, *, y="\\'" "#") -> str:
    return f"{x!r:>{y}} # {'#'}" + \'\'\'
# no comment either\'\'\'
'''
FRAGMENTS = [
    "x",
    "=",
    "1",
    "(",
    ")",
    "[",
    "]",
    ":",
    "\n",
    "\n    ",
    "if x",
    "def f",
    "é",
    '"',
    "'",
    '"""',
    "'''",
    "#c",
    "\\",
]
FRAGMENTS += [
    "f'{x}'",
    "return ",
    "lambda: ",
    "\r\n",
    "\r",
    "\t",
    "# coding: latin-1\n",
    "\ufeff",
    "\x0c",
    "'\\d'",
    "9" * 5000,
]


def read(data: bytes) -> python.Source:
    return python.read(data, "file")


def names(source: python.Source, data: bytes, encoding: str = "utf-8") -> list[tuple[str, str]]:
    """Each name of the tree, and what the file has at its span."""
    nodes = [node for node in ast.walk(source.tree) if isinstance(node, ast.Name)]
    spans = [source.span(node) for node in nodes]
    places = zip(nodes, spans, strict=True)
    return [(node.id, data[span.start : span.end].decode(encoding)) for node, span in places]


@pytest.mark.parametrize("start", [b"", BOM])
@pytest.mark.parametrize("line_break", ["\n", "\r\n", "\r"])
def test_spans_are_bytes_of_the_file_as_it_is_stored(start: bytes, line_break: str) -> None:
    file = start + SAMPLE.replace("\n", line_break).encode()
    found = names(read(file), file)
    assert len(found) == 9
    assert all(name == text for name, text in found)


def test_a_call_has_its_span_and_column() -> None:
    source = read(SAMPLE.encode())
    call = next(node for node in ast.walk(source.tree) if isinstance(node, ast.Call))
    span = source.span(call.keywords[0].value)
    assert SAMPLE.encode()[span.start : span.end] == b"0"
    assert (call.keywords[0].value.lineno, source.column(call.keywords[0].value)) == (7, 29)


def test_another_encoding_of_one_byte_a_character_is_read() -> None:
    file = '# -*- coding: latin-1 -*-\nx = "é"; y = x\n'.encode("latin-1")
    assert names(read(file), file, "latin-1") == [("x", "x"), ("y", "y"), ("x", "x")]
    assert read("#!/bin/sh\n# coding: cp1252\nx = '€'".encode("cp1252")).tree.body[0].value.value == "€"


def test_comments_are_kept_and_strings_are_none() -> None:
    assert [(comment.line, comment.text, comment.is_own_line) for comment in read(SAMPLE.encode()).comments] == [
        (1, "!/usr/bin/env python", True),
        (3, "of PyTorch", False),
        (5, "autotune: ignore[DL001] in memory", True),
        (7, "none", False),
    ]


@pytest.mark.parametrize("file", sorted(Path(autotune.__file__).parent.glob("*/*.py"))[::8], ids=lambda file: file.name)
def test_comments_are_those_of_the_tokenizer(file: Path) -> None:
    tokens = tokenize.generate_tokens(io.StringIO(file.read_text()).readline)
    expected = [token.start[0] for token in tokens if token.type == tokenize.COMMENT]
    assert [comment.line for comment in read(file.read_bytes()).comments] == expected


@pytest.mark.parametrize(
    ("file", "where", "what"),
    [
        (b"x = = 1", "file:1:5", "invalid Python: invalid syntax"),
        (b"x = 1\n  y = 2", "file:2:2", "invalid Python: unexpected indent"),
        (b"(" * 100_000, "file:1:201", "invalid Python: too many nested parentheses"),
        (b"-" * 100_000, "file:1:1", "Python cannot parse this file: too deeply nested"),
        (b"a" + b".a" * 100_000, "file:1:1", "Python cannot parse this file: maximum recursion depth"),
        (b"# coding: gbk\nx = '\xc4\xe3'", "file:1:1", "an encoding that is not read: gbk"),
        (b"# coding: hex\nx", "file:1:1", "an encoding that is not read: 'hex' is not a text encoding"),
        (b"# coding: nothing\nx", "file:1:1", "an encoding that is not read: unknown encoding"),
        (b"# coding: cp1252\nx = '\x81'", "file:2:6", "not text in CP1252"),
        (b"x = '\xff'", "file:1:6", "not text in UTF-8"),
        (b"x\0", "file:1:2", "a null byte"),
    ],
)
def test_a_broken_file_is_an_error_with_its_place(file: bytes, where: str, what: str) -> None:
    with pytest.raises(UsageError) as error:
        read(file)
    assert error.value.where == where
    assert error.value.what.startswith(what)


def test_warnings_of_the_file_are_not_ours() -> None:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        read(b"x = '\\d' is 1")
    assert caught == []


@given(st.binary(max_size=30) | texts(FRAGMENTS).map(str.encode) | mutants(SAMPLE.encode()))
def test_any_bytes_are_read_or_refused_with_a_place(file: bytes) -> None:
    def check() -> None:
        source = read(file)
        for node in ast.walk(source.tree):
            span = source.span(node)
            assert 0 <= span.start <= span.end <= len(file)

    error_of(check)
