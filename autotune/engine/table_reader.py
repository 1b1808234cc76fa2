"""Reads the keys of a parsed TOML table and notes every mistake instead of stopping at the first."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import Any

from autotune.model.evidence import Value

Table = Mapping[str, Any]


class Fields:
    """One table of a file at `path` ("fix 2"); `mistakes` is shared by all tables of the file."""

    def __init__(self, table: object, path: str, mistakes: list[str]) -> None:
        self.path, self.mistakes = path, mistakes
        self.table: Table = table if isinstance(table, dict) else {}
        if not isinstance(table, dict):
            self.wrong("", "must be a table")

    def wrong(self, key: str, what: str) -> None:
        """Note a mistake in `key` of this table."""
        where = ".".join(part for part in (self.path, key) if part)
        self.mistakes.append(f"{where}: {what}" if where else what)

    def only(self, allowed: Collection[str]) -> None:
        """Note every key that is not one of `allowed`."""
        for key in self.table:
            if key not in allowed:
                from difflib import get_close_matches  # only a mistake needs it

                guess = get_close_matches(key, allowed, n=1)
                hint = f"did you mean `{guess[0]}`?" if guess else f"the keys are {', '.join(allowed)}"
                self.wrong(key, f"unknown key; {hint}")

    def text(self, key: str, *, default: str | None = None) -> str:
        """A string, stripped; without a `default` it must be there and not be empty."""
        value = self.table.get(key, default)
        if isinstance(value, str) and (value.strip() or default is not None):
            return value.strip()
        wanted = "must be a string" if default is not None else "must be a non-empty string"
        self.wrong(key, "is missing: write a string" if value is None else wanted)
        return default or ""

    def flag(self, key: str) -> bool:
        """true or false; false when it is not there."""
        value = self.table.get(key, False)
        if not isinstance(value, bool):
            self.wrong(key, "must be true or false")
        return value is True

    def choice(self, key: str, allowed: Collection[str], *, default: str | None = None) -> str:
        """A string that is one of `allowed`; without a `default` it must be there."""
        value = self.text(key, default=default)
        if (value or default) and value not in allowed:
            self.wrong(key, f'"{value}" is not one of {", ".join(allowed)}')
            return ""
        return value

    def texts(self, key: str) -> tuple[str, ...]:
        """A list of strings, at least one."""
        value = self.table.get(key)
        if isinstance(value, list) and value and all(isinstance(one, str) and one.strip() for one in value):
            return tuple(value)
        self.wrong(key, "must be a list of strings, at least one")
        return ()

    def tables(self, key: str) -> list[Fields]:
        """An array of tables [[key]], each with its own path ("key 2")."""
        rows = self.table.get(key, [])
        if not isinstance(rows, list):
            self.wrong(key, f"must be written [[{key}]]")
            return []
        where = f"{self.path}.{key}" if self.path else key
        return [Fields(row, f"{where} {number}", self.mistakes) for number, row in enumerate(rows, 1)]

    def below(self, key: str) -> Fields:
        """The table under `key`."""
        return Fields(self.table.get(key), key, self.mistakes)

    def entries(self, key: str) -> dict[str, Any]:
        """A table as it is."""
        value = self.table.get(key, {})
        if isinstance(value, dict):
            return value
        self.wrong(key, "must be a table")
        return {}


def value_of(raw: object, kind: str) -> Value:
    """`raw`, as TOML has it, as a value of a catalogue type. Raises ValueError that says what is needed."""
    read = _READ.get(kind, _number)
    value: Value | None = read(raw)
    if value is None:
        raise ValueError(f"{raw!r} is not of type {kind}: write {_EXAMPLES.get(kind, 'a number')}")
    if kind == "share" and isinstance(value, float | int) and not 0 <= value <= 1:
        raise ValueError(f"{raw!r} is not a share: write a number from 0 to 1")
    return value


def _version(raw: object) -> tuple[int, ...] | None:
    parts = raw.split(".") if isinstance(raw, str) else raw
    if not isinstance(parts, list) or not parts or not all(str(part).isdecimal() for part in parts):
        return None
    return tuple(int(part) for part in parts)


def _number(raw: object) -> Any:
    return raw if isinstance(raw, int | float) and not isinstance(raw, bool) else None


_READ: Mapping[str, Callable[[object], Any]] = {
    "bool": lambda raw: raw if isinstance(raw, bool) else None,
    "text": lambda raw: raw if isinstance(raw, str) else None,
    "int": lambda raw: raw if isinstance(raw, int) and not isinstance(raw, bool) else None,
    "version": _version,
}
_EXAMPLES = {"bool": "true or false", "text": "a string", "int": "a whole number", "version": '"4.41.2"'}
