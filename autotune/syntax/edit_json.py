"""Edits of JSON files: what `syntax.json` reads, with its comments and trailing commas."""

from __future__ import annotations

import json as stdlib
import math
import re
from collections.abc import Iterator

from autotune.errors import UsageError
from autotune.model.source import DataValue, Path, Scalar, Splice
from autotune.syntax import json
from autotune.syntax.edit_effect import confirm, insertion_point, parsed_values
from autotune.syntax.edit_members import BracketGroup, appended, own_line, unit
from autotune.syntax.edit_style import decimal, example, integer, is_same, line_break
from autotune.syntax.text import decode

_COMMENT = r"//[^\r\n]*|\#[^\r\n]*|/\*.*?\*/"
_TOKEN = re.compile(rf'(?P<comment>{_COMMENT})|"(?:[^"\\]|\\.)*+"|[{{}}\[\]:,]|[^\s,:\[\]{{}}"#/]+', re.DOTALL)
_Tokens = Iterator[re.Match[str]]


def replaced(entry: DataValue, value: Scalar) -> Splice:
    """The edit that makes `entry` be `value`."""
    if is_same(entry.value, value):
        return Splice(entry.span, entry.text)
    return Splice(entry.span, _written(value, entry.text))


def inserted(data: bytes, where: str, parent: Path, key: str, value: Scalar) -> Splice:
    """The edit that adds `key` to the object at `parent`, which is added too when it is not there.

    Raises UsageError when the key is there, or when something else than an object is at `parent`.
    """
    text, before = decode(data, where), json.read(data, where)
    groups = _groups(text.text)
    at, added = insertion_point(parsed_values(before), groups, (*parent, key))
    new = _member(added, _written(value, example(before.entries, parent, value)), text.text, groups[at])
    start, end, written = appended(text.text, groups[at], new)
    splice = Splice(text.span(start, end), written)
    confirm(data, splice, lambda data: json.read(data, where), (*parent, key), value)
    return splice


def _written(value: Scalar, old: str) -> str:
    if isinstance(value, float) and math.isfinite(value):
        return decimal(value, old)
    if isinstance(value, int) and not isinstance(value, bool):
        return integer(value, "")
    return stdlib.dumps(value, ensure_ascii=False)


def _member(added: tuple[str, ...], value: str, text: str, group: BracketGroup) -> str:
    """ "key": value, or one such object in the other, on lines of their own where the members have them."""
    key, *below = (stdlib.dumps(part, ensure_ascii=False) for part in added)
    colon = _colon(text, group)
    indentation = own_line(text, group)
    if not below or indentation is None:
        return f"{colon.join((key, *(f'{{{one}' for one in below), value))}{'}' * len(below)}"
    line, step = line_break(text, group.end) + indentation, unit(text, group)
    opening = "".join(f"{{{line}{step * depth}{one}{colon}" for depth, one in enumerate(below, 1))
    closing = "".join(f"{line}{step * depth}}}" for depth in reversed(range(len(below))))
    return f"{key}{colon}{opening}{value}{closing}"


def _colon(text: str, group: BracketGroup) -> str:
    """What stands between the last key and its value."""
    if not group.members:
        return ": "
    found = re.compile(r'"(?:[^"\\]|\\.)*+"(:[ \t]*)').match(text, group.members[-1][0])
    return found[1] if found else ": "


def _groups(text: str) -> dict[Path, BracketGroup]:
    """Every object of a valid file, by its path."""
    groups: dict[Path, BracketGroup] = {}
    tokens = (match for match in _TOKEN.finditer(text) if match["comment"] is None)
    _value(next(tokens), tokens, (), groups)
    return groups


def _value(token: re.Match[str], tokens: _Tokens, path: Path, groups: dict[Path, BracketGroup]) -> int:
    """Where the value that starts with `token` ends; keeps the objects in it."""
    if token[0] == "[":
        items = (one for one in tokens if one[0] != ",")
        for index, first in enumerate(items):
            if first[0] == "]":
                return first.end()
            _value(first, tokens, (*path, index), groups)
    if token[0] != "{":
        return token.end()
    members: list[tuple[int, int]] = []
    for key in (one for one in tokens if one[0] != ","):
        if key[0] == "}":
            groups[path] = BracketGroup(token.end(), key.start(), members, _COMMENT)
            return key.end()
        next(tokens)
        name = str(stdlib.loads(key[0], strict=False))
        members.append((key.start(), _value(next(tokens), tokens, (*path, name), groups)))
    raise UsageError("an object without an end")
