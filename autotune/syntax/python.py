"""Reads a Python file to its syntax tree. The code is parsed, never compiled, imported or run."""

from __future__ import annotations

import ast
import codecs
import io
import re
import warnings

from msgspec import Struct

from autotune.errors import UsageError
from autotune.model.evidence import Span
from autotune.model.source import Comment
from autotune.syntax.text import Text, decode

_STRING_OR_COMMENT = re.compile(
    r"""
      '{3}(?:[^\\]|\\.)*?'{3} | "{3}(?:[^\\]|\\.)*?"{3}
    | '(?:[^'\\\r\n]|\\.)*+'  | "(?:[^"\\\r\n]|\\.)*+"
    | (?P<comment>\#[^\r\n]*)
    """,
    re.VERBOSE | re.DOTALL,
)


class Source(Struct, frozen=True):
    """A Python file: its tree, its text and its comments."""

    tree: ast.Module
    text: Text
    comments: tuple[Comment, ...]

    def span(self, node: ast.AST) -> Span:
        """The bytes of a node that has a place (an expression, statement, argument, keyword or alias)."""
        start = self._place(getattr(node, "lineno", 1), getattr(node, "col_offset", 0))
        end = self._place(getattr(node, "end_lineno", 1), getattr(node, "end_col_offset", 0))
        return self.text.span(start, max(start, end))

    def column(self, node: ast.AST) -> int:
        """The column of a node's first character, counted from 1 (its `lineno` is its line)."""
        place = self._place(getattr(node, "lineno", 1), getattr(node, "col_offset", 0))
        return self.text.column(place)

    def _place(self, line: int, column: int) -> int:
        """The place in the text of what ast states: a line, and bytes of UTF-8 in it."""
        start = self.text.lines[min(line, len(self.text.lines)) - 1]
        if not self.text.text.isascii():
            column = len(self.text.text[start : start + column].encode()[:column].decode(errors="ignore"))
        return min(start + column, len(self.text.text))


def read(data: bytes, where: str) -> Source:
    """The tree of a Python file, with its places. Raises UsageError where Python would raise a SyntaxError."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the file's own, such as an escape that Python does not know
        text = decode(data, where, _encoding(data, where))
        tree = _parse(text)
    return Source(tree, text, tuple(_comments(text)))


def last_name(node: ast.AST) -> str:
    """The last part of a dotted name: "step" of optimizer.step; "" for anything else."""
    if isinstance(node, ast.Attribute):
        return node.attr
    return node.id if isinstance(node, ast.Name) else ""


def calls_of(source: Source, name: str) -> list[ast.Call]:
    """The calls of `name` ("DataLoader", whatever stands before it), in the order of the file."""
    found = [node for node in ast.walk(source.tree) if isinstance(node, ast.Call) and last_name(node.func) == name]
    return sorted(found, key=lambda call: (call.lineno, call.col_offset))


def _parse(text: Text) -> ast.Module:
    try:
        return ast.parse(text.text)
    except SyntaxError as error:
        where = f"{text.where}:{error.lineno or 1}:{error.offset or 1}"
        raise UsageError(f"invalid Python: {error.msg}", where=where) from None
    except (RecursionError, MemoryError, ValueError) as error:
        raise text.error(f"Python cannot parse this file: {str(error) or 'too deeply nested'}", 0) from None


def _comments(text: Text) -> list[Comment]:
    """All comments. A string nested in an f-string with the same quotes (Python 3.12) may hide one or look like one."""
    found = _STRING_OR_COMMENT.finditer(text.text)
    return [text.comment(match.start(), match[0]) for match in found if match["comment"]]


def _encoding(data: bytes, where: str) -> str:
    """The encoding that the first two lines declare (PEP 263), else UTF-8."""
    if b"coding" not in b"".join(data.splitlines()[:2]):
        return "utf-8"
    import tokenize

    try:
        name = codecs.lookup(tokenize.detect_encoding(io.BytesIO(data).readline)[0].removesuffix("-sig")).name
        if name != "utf-8" and len(data.decode(name)) != len(data):
            raise LookupError(name)
    except UnicodeDecodeError:
        return name
    except (SyntaxError, LookupError, UnicodeError) as error:
        raise UsageError(f"an encoding that is not read: {error}", where=f"{where}:1:1", to_do="Use UTF-8.") from None
    return name
