"""Edits of TOML files."""

from __future__ import annotations

import json
import math
import re

from msgspec import field

from autotune.errors import UsageError
from autotune.model.source import DataValue, Path, Scalar, Splice
from autotune.syntax import toml
from autotune.syntax.edit_effect import confirm, insertion_point, parsed_values
from autotune.syntax.edit_members import BracketGroup, appended
from autotune.syntax.edit_style import decimal, example, indent, integer, is_same, line_break, line_end
from autotune.syntax.text import decode
from autotune.syntax.toml_scan import Scan

_BARE = re.compile(r"[A-Za-z0-9_-]+", re.ASCII)
_SPECIAL = {math.inf: "inf", -math.inf: "-inf"}


def replaced(entry: DataValue, value: Scalar) -> Splice:
    """The edit that makes `entry` be `value`. Raises UsageError for None, which TOML does not have."""
    if is_same(entry.value, value):
        return Splice(entry.span, entry.text)
    return Splice(entry.span, _written(value, entry.text))


def inserted(data: bytes, where: str, parent: Path, key: str, value: Scalar) -> Splice:
    """The edit that adds `key` to the table at `parent`, which is added at the end when it is not there.

    Raises UsageError when the key is there, or when something else than a table is at `parent`.
    """
    text, before = decode(data, where), toml.read(data, where)
    places = _Places(text)
    places.document()
    at, added = insertion_point(parsed_values(before), places.tables(), (*parent, key))
    new = _written(value, example(before.entries, parent, value))
    start, end, written = places.added(at, added, new)
    splice = Splice(text.span(start, end), written)
    confirm(data, splice, lambda data: toml.read(data, where), (*parent, key), value)
    return splice


def _written(value: Scalar, old: str) -> str:
    if value is None:
        raise UsageError("TOML has no null", to_do="Delete the key by hand.")
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int):
        return integer(value, old)
    if isinstance(value, float):
        return decimal(value, old) if math.isfinite(value) else _SPECIAL.get(value, "nan")
    if old.startswith("'") and value.isprintable() and "'" not in value:
        return f"'{value}'"
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")


def _key(parts: Path) -> str:
    return ".".join(str(part) if _BARE.fullmatch(str(part)) else _written(str(part), "") for part in parts)


class _Places(Scan):
    """A scan that keeps where tables stand: their headers, their pairs and, for {...}, their brackets.

    `dotted` are the tables that only dotted keys make: the table of the pair, and where the pair ends.
    """

    headers: dict[Path, int] = field(default_factory=dict)
    pairs: dict[Path, list[tuple[int, int]]] = field(default_factory=dict)
    values: dict[Path, tuple[int, int]] = field(default_factory=dict)
    dotted: dict[Path, tuple[Path, int]] = field(default_factory=dict)

    def tables(self) -> set[Path]:
        """Every table to which a key can be added."""
        inline = {path for path, (start, _) in self.values.items() if self.text.text.startswith("{", start)}
        above = {path[:length] for path in self.headers for length in range(len(path) + 1)}
        return {(), *above, *inline, *self.dotted}

    def added(self, at: Path, keys: tuple[str, ...], new: str) -> tuple[int, int, str]:
        """Where to write what to add `keys` to the table `at`: start, end and the text for what is between them."""
        text = self.text.text
        if at in self.values:
            start, end = self.values[at]
            return appended(
                text, BracketGroup(start + 1, end - 1, self.pairs.get(at, ()), "(?!)"), f"{_key(keys)} = {new}"
            )
        if at in self.dotted:
            table, end = self.dotted[at]
            return self._line(end, f"{_key((*at[len(table) :], *keys))} = {new}")
        if len(keys) > 1 or (at and at not in self.headers):
            return self._section((*at, *keys[:-1]), f"{_key(keys[-1:])} = {new}")
        if at in self.pairs:
            return self._line(self.pairs[at][-1][1], f"{_key(keys)} = {new}")
        if at:
            return self._line(self.headers[at], f"{_key(keys)} = {new}")
        return 0, 0, f"{_key(keys)} = {new}{line_break(text, 0) * (2 if text.strip() else 1)}"

    def _line(self, place: int, new: str) -> tuple[int, int, str]:
        """A line below the one of `place`, which may have a comment."""
        text = self.text.text
        end = line_end(text, place)
        return end, end, line_break(text, end) + indent(text, place) + new

    def _section(self, path: Path, new: str) -> tuple[int, int, str]:
        """A table at the end of the file, with an empty line above it."""
        text = self.text.text
        end, line = len(text), line_break(text, len(text))
        header = f"[{_key(tuple(part for part in path if isinstance(part, str)))}]"
        if text.endswith("\n"):
            return end, end, f"{line}{header}{line}{new}{line}"
        return end, end, f"{line * 2 if text.strip() else ''}{header}{line}{new}"

    def _header(self, closing: str) -> Path:
        path = super()._header(closing)
        self.headers[path] = self.place
        return path

    def _pair(self, table: Path) -> None:
        start = self.place
        super()._pair(table)
        path = next(reversed(self.values))
        self.pairs.setdefault(table, []).append((start, self.place))
        for length in range(len(table) + 1, len(path)):
            self.dotted[path[:length]] = table, self.place

    def _value(self, path: Path) -> None:
        start = self.place
        super()._value(path)
        self.values[path] = start, self.place
