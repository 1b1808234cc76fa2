"""The text of a file, and where each of its characters stands: what all readers share."""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Sequence
from itertools import accumulate

from msgspec import Struct

from autotune.errors import UsageError
from autotune.model.evidence import Span
from autotune.model.source import Comment, DataValue, Document, Path, Scalar

MAX_DEPTH = 100
"""Levels of lists and mappings; a config has about ten."""

MAX_VALUES = 50_000
"""Values of one file, or words of a script, counted as often as aliases and variables repeat them."""

_BOM = b"\xef\xbb\xbf"
_LINE_BREAK = re.compile(r"\r\n|\n|\r")
_WIDE = re.compile(r"[^\x00-\x7f]")


class Text(Struct, frozen=True):
    """A decoded file without its byte order mark. A place is an index into `text`, lines and columns count from 1.

    `lines` are the places where lines start. `wide` are the places of characters of several bytes, `extra` how many
    bytes more than characters the file has before the first of them, the second, ..., and the end.
    """

    text: str
    where: str
    lines: Sequence[int]
    wide: Sequence[int]
    extra: Sequence[int]

    def span(self, start: int, end: int) -> Span:
        """The bytes of the characters from `start` up to, not including, `end`."""
        return Span(self._byte(start), self._byte(end))

    def line(self, place: int) -> int:
        return bisect_right(self.lines, place)

    def column(self, place: int) -> int:
        return place - self.lines[self.line(place) - 1] + 1

    def error(self, what: str, place: int, to_do: str = "") -> UsageError:
        """The error that says what is wrong at `place`; to be raised."""
        return UsageError(what, where=f"{self.where}:{self.line(place)}:{self.column(place)}", to_do=to_do)

    def bound(self, place: int, depth: int, left: int) -> None:
        """Raise UsageError when what stands at `place` is too deep, or `left` (how many values may still come) < 0."""
        if depth > MAX_DEPTH:
            raise self.error("too deeply nested", place)
        if left < 0:
            raise self.error(f"more than {MAX_VALUES} values", place)

    def comment(self, start: int, text: str) -> Comment:
        """The comment that starts at `start`; `text` is what it says, its sign included."""
        before = self.text[self.lines[self.line(start) - 1] : start]
        return Comment(self.line(start), text.strip().lstrip("#/").strip(), not before.strip())

    def _byte(self, place: int) -> int:
        return place + self.extra[bisect_left(self.wide, place)]


class Leaf(Struct, frozen=True):
    """A value and where it stands: what a reader of a data file finds."""

    path: Path
    value: Scalar | tuple[()]
    start: int
    end: int


def decode(data: bytes, where: str, encoding: str = "utf-8") -> Text:
    """The text of a file in UTF-8 or in an encoding of one byte a character.

    Raises UsageError for null bytes and for what is not text in this encoding.
    """
    first = len(_BOM) if data.startswith(_BOM) else 0
    null = data.find(b"\0")
    if null >= 0:
        raise _undecodable(data, null, where, "a null byte: this is not a text file")
    try:
        text = data[first:].decode(encoding)
    except UnicodeDecodeError as error:
        raise _undecodable(data, first + error.start, where, f"not text in {encoding.upper()}") from None
    is_utf8 = encoding == "utf-8"
    wide = [match.start() for match in _WIDE.finditer(text)] if is_utf8 and not text.isascii() else []
    extra = accumulate((len(text[place].encode()) - 1 for place in wide), initial=first)
    return Text(text, where, (0, *(match.end() for match in _LINE_BREAK.finditer(text))), wide, tuple(extra))


def document(text: Text, leaves: Iterable[Leaf], comments: Sequence[Comment]) -> Document:
    """The values of a file with their text, line and comment."""
    remarks = {comment.line: comment.text for comment in comments if not comment.is_own_line}
    return Document(tuple(_entry(text, leaf, remarks) for leaf in leaves), tuple(comments))


def _entry(text: Text, leaf: Leaf, remarks: dict[int, str]) -> DataValue:
    line = text.line(leaf.start)
    column = leaf.start - text.lines[line - 1] + 1
    written, span = text.text[leaf.start : leaf.end], text.span(leaf.start, leaf.end)
    return DataValue(leaf.path, leaf.value, written, span, line, column, remarks.get(line, ""))


def _undecodable(data: bytes, place: int, where: str, what: str) -> UsageError:
    before = data[:place].decode("utf-8", "replace")
    lines = _LINE_BREAK.split(before)
    return UsageError(what, where=f"{where}:{len(lines)}:{len(lines[-1]) + 1}", to_do="Save the file as UTF-8.")
