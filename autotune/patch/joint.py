"""Edits that are confirmed one by one do together what each of them does alone, or are refused.

A file is compared as its values by their paths, so that the sum of what the edits do alone is what they do together.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from autotune.errors import UsageError
from autotune.model.patch import Edit
from autotune.model.source import Command
from autotune.patch import spell
from autotune.patch.splice import spliced

Values = Mapping[tuple[object, ...], str]


def confirmed(data: bytes, edits: Sequence[Edit]) -> bytes:
    """`data` with all `edits` of its file. Raises UsageError unless it has what each of them alone gives it."""
    after = spliced(data, edits)
    try:
        before, together = _values(data, edits[0].file), _values(after, edits[0].file)
        wanted = dict(before)
        for edit in edits:
            alone = _values(spliced(data, [edit]), edit.file)
            wanted = {path: value for path, value in wanted.items() if path in alone or path not in before}
            wanted |= {path: value for path, value in alone.items() if before.get(path) != value}
    except UsageError as error:
        raise _refused(edits, f"it could not be read then ({error.what})") from error
    if together != wanted:
        raise _refused(edits, "one of them would be lost")
    return after


def _refused(edits: Sequence[Edit], why: str) -> UsageError:
    keys = ", ".join(dict.fromkeys(edit.key for edit in edits))
    what = f"{keys} cannot be written into this file together: {why}; nothing was changed"
    return UsageError(what, where=edits[0].file, to_do="Write one of them with --select, then diagnose again.")


def _values(data: bytes, name: str) -> Values:
    """What the consumer of a file reads, by path. Raises UsageError when it is not valid, or has a path twice."""
    document = spell.read(data, name)
    if hasattr(document, "entries"):
        return _by_path(((entry.path, repr(entry.value)) for entry in document.entries), name)
    if hasattr(document, "tree"):
        return _by_path(_leaves(document.tree, ()), name)
    flags = (pair for number, command in enumerate(document.commands) for pair in _flags(number, command))
    return _by_path(flags, name)


def _by_path(pairs: Iterator[tuple[tuple[object, ...], str]], name: str) -> Values:
    values: dict[tuple[object, ...], str] = {}
    for path, value in pairs:
        if path in values:
            raise UsageError(f"{path[-1]} is there twice", where=name)
        values[path] = value
    return values


def _leaves(node: Any, path: tuple[object, ...]) -> Iterator[tuple[tuple[object, ...], str]]:
    """The leaves of a syntax tree; an argument stands under its keyword, an item of a dict under its key."""
    if isinstance(node, list):
        for number, each in enumerate(node):
            name = each.arg if isinstance(each, ast.keyword) and each.arg else number
            yield from _leaves(each, (*path, name))
    elif isinstance(node, ast.Dict):
        yield (*path, "Dict"), ""
        for number, (key, value) in enumerate(zip(node.keys, node.values, strict=True)):
            yield from _leaves(value, (*path, number if key is None else ast.unparse(key)))
    elif isinstance(node, ast.AST):
        yield (*path, type(node).__name__), ""
        for field, value in ast.iter_fields(node):
            yield from _leaves(value, (*path, field))
    else:
        yield path, repr(node)


def _flags(number: int, command: Command) -> Iterator[tuple[tuple[object, ...], str]]:
    """Each flag of a command with the words behind it, each override, and each word that is not known."""
    flag, behind, seen = "", 0, 0
    for word in command.words:
        text = word.text if word.value is None else word.value
        if word.value is None or text.startswith("-") or "=" in text:
            flag, behind, seen = text.partition("=")[0], 0, seen + (text.startswith(flag) and bool(flag))
        yield (number, flag, behind), text
        behind += 1
