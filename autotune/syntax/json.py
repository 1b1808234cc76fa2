"""Reads JSON as Python's json module types it, and tolerates what people add to config files.

Tolerated: comments (// and # to the end of the line, /* */), a comma after the last value, control characters in
strings. Where a key is given twice, the last one counts, as for json.loads.
"""

from __future__ import annotations

import json
import re

from msgspec import Struct, field

from autotune.model.source import Comment, Document, Path
from autotune.syntax.text import MAX_VALUES, Leaf, Text, decode, document

_BLANK = re.compile(r"[ \t\r\n\f\v\ufeff]*")
_COMMENT = re.compile(r"(?://|#)[^\r\n]*|/\*.*?\*/", re.DOTALL)
_STRING = re.compile(r'"(?:[^"\\]|\\.)*+"', re.DOTALL)
_WORD = re.compile(r'[^\s,:\[\]{}"#/]+')
_NUMBER = re.compile(r"-?(?:0|[1-9]\d*+)(\.\d++)?([eE][-+]?\d++)?", re.ASCII)
_NAMES: dict[str, bool | float | None] = {"true": True, "false": False, "null": None}
_NAMES |= {"NaN": float("nan"), "Infinity": float("inf"), "-Infinity": float("-inf")}


def read(data: bytes, where: str, *, lenient: bool = True) -> Document:
    """The values of a JSON file; unless `lenient`, only of one that json.loads takes. Raises UsageError."""
    text = decode(data, where)
    if not lenient:
        _be_strict(text)
    reader = _Reader(text)
    leaves = reader.value((), 0)
    reader.skip()
    if reader.place < len(text.text):
        raise text.error("text after the end of the value", reader.place)
    return document(text, leaves, reader.comments)


def _be_strict(text: Text) -> None:
    try:
        json.loads(text.text)
    except json.JSONDecodeError as error:
        raise text.error(error.msg, error.pos) from None
    except (RecursionError, ValueError) as error:  # ValueError: an integer of more digits than Python converts
        raise text.error(str(error), 0) from None


class _Reader(Struct):
    """A place in the text that only moves on, past `comments`; `left` is how many values may still come."""

    text: Text
    place: int = 0
    left: int = MAX_VALUES
    comments: list[Comment] = field(default_factory=list)

    def value(self, path: Path, depth: int) -> list[Leaf]:
        """The value that comes next, with everything in it."""
        self.skip()
        self.left -= 1
        self.text.bound(self.place, depth, self.left)
        start, sign = self.place, self.text.text[self.place : self.place + 1]
        if sign == "{":
            leaves = self._object(path, depth)
        elif sign == "[":
            leaves = self._array(path, depth)
        else:
            value = self._string() if sign == '"' else self._word()
            return [Leaf(path, value, start, self.place)]
        return leaves or [Leaf(path, (), start, self.place)]

    def skip(self) -> None:
        """Over blanks and comments."""
        text = self.text.text
        while True:
            self.place = _BLANK.match(text, self.place).end()  # type: ignore[union-attr]  # it matches "" too
            comment = _COMMENT.match(text, self.place)
            if comment is None:
                return
            words = comment[0].removesuffix("*/").replace("/*", "")
            self.comments.append(self.text.comment(self.place, words))
            self.place = comment.end()

    def _object(self, path: Path, depth: int) -> list[Leaf]:
        members: dict[str, list[Leaf]] = {}
        self.place += 1
        while not self._closed("}"):
            key = self._key()
            members[key] = self.value((*path, key), depth + 1)
            self._comma("}")
        return [leaf for leaves in members.values() for leaf in leaves]

    def _array(self, path: Path, depth: int) -> list[Leaf]:
        items: list[list[Leaf]] = []
        self.place += 1
        while not self._closed("]"):
            items.append(self.value((*path, len(items)), depth + 1))
            self._comma("]")
        return [leaf for leaves in items for leaf in leaves]

    def _closed(self, sign: str) -> bool:
        self.skip()
        is_closed = self.text.text.startswith(sign, self.place)
        self.place += is_closed
        return is_closed

    def _comma(self, closing: str) -> None:
        self.skip()
        if self.text.text.startswith(",", self.place):
            self.place += 1
        elif not self.text.text.startswith(closing, self.place):
            raise self.text.error(f"expected ',' or '{closing}'", self.place)

    def _key(self) -> str:
        if not self.text.text.startswith('"', self.place):
            raise self.text.error("expected a key in double quotes", self.place)
        key = self._string()
        self.skip()
        if not self.text.text.startswith(":", self.place):
            raise self.text.error("expected ':' after the key", self.place)
        self.place += 1
        return key

    def _string(self) -> str:
        match = _STRING.match(self.text.text, self.place)
        if match is None:
            raise self.text.error("a string without an end", self.place)
        try:
            value = str(json.loads(match[0], strict=False))
            value.encode()
        except json.JSONDecodeError as error:
            raise self.text.error(error.msg, self.place + error.pos) from None
        except UnicodeEncodeError:
            raise self.text.error("an escape that is half of a character", self.place) from None
        self.place = match.end()
        return value

    def _word(self) -> bool | int | float | None:
        match = _WORD.match(self.text.text, self.place)
        word = match[0] if match else ""
        value = _NAMES[word] if word in _NAMES else self._number(word)
        self.place += len(word)
        return value

    def _number(self, word: str) -> int | float:
        match = _NUMBER.fullmatch(word)
        if match is None:
            raise self.text.error("expected a value", self.place)
        try:
            return float(word) if match[1] or match[2] else int(word)
        except ValueError:
            raise self.text.error("a number of too many digits", self.place) from None
