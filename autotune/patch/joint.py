"""Edits that are confirmed one by one do together what each of them does alone, or are refused.

A file is compared as its values by their paths, so that the sum of what the edits do alone is what they do together.
"""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from autotune.errors import UsageError
from autotune.model.evidence import Span
from autotune.model.patch import Edit
from autotune.model.source import Splice
from autotune.patch import spell, statement
from autotune.patch.again import again
from autotune.patch.splice import spliced
from autotune.syntax import edit_effect, shell_effect

Values = Mapping[tuple[object, ...], str]


def confirmed(data: bytes, edits: Sequence[Edit]) -> bytes:
    """`data` with all `edits` of its file. Raises UsageError unless it has what each of them alone gives it.

    Two that each add the holder of their key are merged: the first adds it, the second goes into it.
    """
    after, name = spliced(data, edits), edits[0].file
    try:
        wanted = _wanted(data, edits)
    except UsageError as error:
        raise _refused(edits, f"it could not be read then ({error.what})") from error
    if _has(after, name, wanted):
        return after
    try:
        after = _in_turn(data, edits)
    except UsageError as error:
        raise _refused(edits, error.what) from error
    if _has(after, name, wanted):
        return after
    raise _refused(edits, "one of them would be lost")


def _wanted(data: bytes, edits: Sequence[Edit]) -> Values:
    """The values of the file, with what each edit alone makes of them."""
    before = _values(data, edits[0].file)
    wanted = dict(before)
    for edit in edits:
        alone = _values(spliced(data, [edit]), edit.file)
        wanted = {path: value for path, value in wanted.items() if path in alone or path not in before}
        wanted |= {path: value for path, value in alone.items() if before.get(path) != value}
    return wanted


def _in_turn(data: bytes, edits: Sequence[Edit]) -> bytes:
    """The file, edited from its end so that places hold; of several edits at one place, each is made anew."""
    seen: set[Span] = set()
    for edit in sorted(edits, key=lambda each: each.span.start, reverse=True):
        now = again(data, edit, edit.span.start) if edit.span in seen else edit
        seen.add(edit.span)
        data = edit_effect.spliced(data, Splice(now.span, now.new)) if now is not None else data
    return data


def _has(data: bytes, name: str, wanted: Values) -> bool:
    """Whether a file can be read, and has these values."""
    try:
        return _values(data, name) == wanted
    except UsageError:
        return False


def _refused(edits: Sequence[Edit], why: str) -> UsageError:
    keys = ", ".join(dict.fromkeys(edit.key for edit in edits))
    return UsageError(
        f"{keys} cannot be written together: {why}",
        where=edits[0].file,
        to_do="Nothing was changed. Write one of them with --select, then diagnose again.",
    )


def _values(data: bytes, name: str) -> Values:
    """What the consumer of a file reads, by path; the second value of one path has the number 1 behind it."""
    source = spell.read(data, name)
    pairs: Iterable[tuple[tuple[object, ...], str]]
    if hasattr(source, "entries"):
        pairs = ((entry.path, repr(entry.value)) for entry in source.entries)
    elif hasattr(source, "tree"):
        pairs = _leaves(source.tree)
    else:
        commands = enumerate(source.commands)
        pairs = (((number, *place), text) for number, one in commands for *place, text in shell_effect.flags(one))
    seen: Counter[tuple[object, ...]] = Counter()
    values: dict[tuple[object, ...], str] = {}
    for path, value in pairs:
        values[*path, seen[path]] = value
        seen[path] += 1
    return values


def _leaves(tree: ast.AST) -> Iterator[tuple[tuple[object, ...], str]]:
    """All of a syntax tree; an argument stands under its keyword, an item of a dict under its key.

    A statement that sets something stands under its function, and an import under its text, so that others keep their
    numbers when it is added.
    """
    left: list[tuple[tuple[object, ...], Any]] = [((), tree)]
    while left:
        path, node = left.pop()
        yield path, type(node).__name__ if isinstance(node, ast.AST | list) else repr(node)
        if isinstance(node, list):
            left += [((*path, name), each) for name, each in _named(node)]
        elif isinstance(node, ast.Dict):
            keys = ["**" if key is None else ast.unparse(key) for key in node.keys]
            left += [((*path, key), value) for key, value in zip(keys, node.values, strict=True)]
        elif isinstance(node, ast.AST):
            left += [((*path, field), value) for field, value in ast.iter_fields(node)]


def _named(items: Sequence[Any]) -> Iterator[tuple[object, Any]]:
    """The items of a list by their names, or else by their numbers, which those with a name do not count in."""
    number = 0
    for each in items:
        name = each.arg if isinstance(each, ast.keyword) else _name(each) or number
        number += name == number
        yield name, each


def _name(node: Any) -> str:
    """Of what an edit may add: a statement that sets something, and the import that it needs."""
    return ast.unparse(node) if isinstance(node, ast.Import) else statement.name_of(node)
