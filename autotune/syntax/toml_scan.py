"""Where the values of a TOML file stand. What they are, and whether the file is valid, is not decided here."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Callable

from msgspec import Struct, field

from autotune.model.source import Comment, Path
from autotune.syntax.text import MAX_VALUES, Leaf, Text

_BLANK = re.compile(r"[ \t]*+")
_COMMENT = re.compile(r"#[^\r\n]*+")
_LINE_BREAKS = re.compile(r"[\r\n]++")
_STRING = re.compile(
    r"""
      "{3}(?:[^"\\]|\\.|"{1,2}(?!"))*"{3,5} | '{3}(?:[^']|'{1,2}(?!'))*'{3,5}
    | "(?:[^"\\\r\n]|\\.)*+"                 | '[^'\r\n]*+'
    """,
    re.VERBOSE | re.DOTALL,
)
"""Not possessive where a part can be matched in two ways: Python before 3.11.5 gets that wrong."""

_BARE_KEY = re.compile(r"[A-Za-z0-9_-]++")
_BARE_VALUE = re.compile(r"\d{4}-\d\d-\d\d[ ]\d\d:[^\s,\]}#]*|[^\s,\[\]{}=#\"']++")


class Scan(Struct):
    """A place in the text that only moves on, past the `leaves` (all of value ()) and `comments`.

    `num_tables` counts the tables of each [[array of tables]] so far.
    """

    text: Text
    place: int = 0
    leaves: list[Leaf] = field(default_factory=list)
    comments: list[Comment] = field(default_factory=list)
    num_tables: dict[Path, int] = field(default_factory=dict)

    def document(self) -> None:
        """The whole file. Raises UsageError where nothing can stand for a value or a key."""
        table: Path = ()
        self._skip_lines()
        while self.place < len(self.text.text):
            if self._takes("[["):
                table = self._header("]]")
            elif self._takes("["):
                table = self._header("]")
            else:
                self._pair(table)
            self._skip()
            if self.place < len(self.text.text) and not _LINE_BREAKS.match(self.text.text, self.place):
                raise self.text.error("expected the end of the line", self.place)
            self._skip_lines()

    def _header(self, closing: str) -> Path:
        path: Path = ()
        *above, last = self._key()
        for part in above:
            path = self._newest((*path, part))
        path = (*path, last)
        if not self._takes(closing):
            raise self.text.error(f"expected '{closing}'", self.place)
        if closing == "]]":
            self.num_tables[path] = self.num_tables.get(path, 0) + 1
        return self._newest(path)

    def _newest(self, path: Path) -> Path:
        """`path`, or its newest table where it is an array of tables."""
        return (*path, self.num_tables[path] - 1) if path in self.num_tables else path

    def _pair(self, table: Path) -> None:
        path = (*table, *self._key())
        if not self._takes("="):
            raise self.text.error("expected '='", self.place)
        self._skip()
        self._value(path)

    def _key(self) -> list[str]:
        parts = [self._key_part()]
        while self._takes("."):
            parts.append(self._key_part())
            self.text.bound(self.place, len(parts), 0)
        return parts

    def _key_part(self) -> str:
        self._skip()
        match = _BARE_KEY.match(self.text.text, self.place) or _STRING.match(self.text.text, self.place)
        if match is None:
            raise self.text.error("expected a key", self.place)
        self.place = match.end()
        self._skip()
        return match[0] if match.re is _BARE_KEY else self._unquoted(match[0])

    def _unquoted(self, key: str) -> str:
        try:
            return str(tomllib.loads(f"key = {key}")["key"])
        except tomllib.TOMLDecodeError as error:
            raise self.text.error(str(error).split(" (at ")[0], self.place) from None

    def _value(self, path: Path) -> None:
        self.text.bound(self.place, len(path), MAX_VALUES - len(self.leaves))
        num_leaves, start = len(self.leaves), self.place
        if self._takes("["):
            self._items("]", lambda index: self._value((*path, index)))
        elif self._takes("{"):
            self._items("}", lambda index: self._pair(path))
        else:
            self._scalar()
        if len(self.leaves) == num_leaves:
            self.leaves.append(Leaf(path, (), start, self.place))

    def _items(self, closing: str, item: Callable[[int], None]) -> None:
        index = 0
        self._skip_lines()
        while not self._takes(closing):
            item(index)
            index += 1
            self._skip_lines()
            if not self._takes(",") and not self.text.text.startswith(closing, self.place):
                raise self.text.error(f"expected ',' or '{closing}'", self.place)
            self._skip_lines()

    def _scalar(self) -> None:
        match = _STRING.match(self.text.text, self.place) or _BARE_VALUE.match(self.text.text, self.place)
        if match is None:
            raise self.text.error("expected a value", self.place)
        self.place = match.end()

    def _takes(self, sign: str) -> bool:
        is_there = self.text.text.startswith(sign, self.place)
        self.place += len(sign) * is_there
        return is_there

    def _skip(self) -> None:
        """Over blanks and a comment."""
        self.place = _BLANK.match(self.text.text, self.place).end()  # type: ignore[union-attr]  # it matches "" too
        comment = _COMMENT.match(self.text.text, self.place)
        if comment:
            self.comments.append(self.text.comment(self.place, comment[0]))
            self.place = comment.end()

    def _skip_lines(self) -> None:
        """Over blanks, comments and line breaks."""
        self._skip()
        while match := _LINE_BREAKS.match(self.text.text, self.place):
            self.place = match.end()
            self._skip()
