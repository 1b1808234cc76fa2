"""Edits of YAML files, written so that readers of YAML 1.1 (PyYAML) and 1.2 agree on what they mean."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator

from autotune.errors import UsageError
from autotune.model.source import DataValue, Path, Scalar, Splice
from autotune.syntax import yaml
from autotune.syntax.edit_effect import confirm, insertion_point
from autotune.syntax.edit_members import BracketGroup, appended
from autotune.syntax.edit_style import decimal, example, integer, is_same, line_break, line_end, line_start
from autotune.syntax.text import Text, decode
from autotune.syntax.yaml_nodes import YamlNode
from autotune.syntax.yaml_types import plain

_COMMENT = r"(?<=\s)\#[^\r\n]*"
_UNQUOTED = re.compile(r"[A-Za-z0-9_./~+-](?:[\w./+@%^-]|:(?=[\w/]))*", re.ASCII)
_POINTLESS = re.compile(r"^(-?\d+)(?=e)")
_BOOLS = {"yes": "no", "no": "yes", "on": "off", "off": "on", "true": "false", "false": "true"}


def replaced(entry: DataValue, value: Scalar, *, version: str = "1.1") -> Splice:
    """The edit that makes `entry` be `value`; an alias is replaced by the value, and its anchor stays what it is.

    Raises UsageError for what is put together elsewhere (${...}) and for a block of text. The anchor of an alias
    or a merged mapping changes other values too: `edit_effect.confirm` tells.
    """
    if is_same(entry.value, value):
        return Splice(entry.span, entry.text)
    if "${" in entry.text or entry.text[:1] in ("|", ">"):
        what = "is put together from other values" if "${" in entry.text else "is a block of text"
        raise UsageError(f"{entry.key} {what}: {entry.text.splitlines()[0]}", to_do="Edit it by hand.")
    new = _written(value, entry.text, version)
    return Splice(entry.span, new if entry.text else f" {new}")


def inserted(data: bytes, where: str, parent: Path, key: str, value: Scalar, *, version: str = "1.1") -> Splice:
    """The edit that adds `key` to the mapping at `parent`, which is added too when it is not there.

    Raises UsageError when the key is there, or when something else than a mapping is at `parent`.
    """
    text, before = decode(data, where), yaml.read(data, where, version=version)
    end = len(text.text)
    root = yaml.Composer(text, version).document() or YamlNode(end, end)
    nodes = dict(_mappings(root, ()))
    own = {(*path, key.written) for path, node in nodes.items() for key, _ in node.members or () if not key.is_merge}
    at, added = insertion_point(own, nodes, (*parent, key))
    new = _written(value, example(before.entries, parent, value), version)
    start, end, written = _added(text, root, nodes[at], added, new)
    splice = Splice(text.span(start, end), written)
    confirm(data, splice, lambda data: yaml.read(data, where, version=version), (*parent, key), value)
    return splice


def _written(value: Scalar, old: str, version: str) -> str:
    if isinstance(value, bool):
        return _bool(value, old, version)
    if value is None:
        return old if plain(old, version) is None and old else "null"
    if isinstance(value, int):
        return integer(value, old)
    if isinstance(value, float):
        special = {math.inf: ".inf", -math.inf: "-.inf"}.get(value, ".nan")
        return _POINTLESS.sub(r"\1.0", decimal(value, old)) if math.isfinite(value) else special
    return _string(value, old)


def _bool(value: bool, old: str, version: str) -> str:
    """In the words and the case of `old` where that is a bool: True, yes, ON."""
    if old.lower() not in _BOOLS or plain(old, version) not in (True, False):
        return "true" if value else "false"
    word = old.lower() if plain(old, version) is value else _BOOLS[old.lower()]
    return word.upper() if old.isupper() else word.title() if old[0].isupper() else word


def _string(value: str, old: str) -> str:
    """In the quotes of `old`, or without when it has none and no reader could take it for something else."""
    is_plain = _UNQUOTED.fullmatch(value) and value.lower() not in ("y", "n")  # YAML 1.1 by the letter: two bools
    is_plain = is_plain and all(plain(value, version) == value for version in ("1.1", "1.2"))
    if old.startswith("'") and value.isprintable():
        return "'" + value.replace("'", "''") + "'"
    if is_plain and not old.startswith('"'):
        return value
    quoted = json.dumps(value, ensure_ascii=False)
    return "".join(one if one.isprintable() else f"\\U{ord(one):08x}" for one in quoted)


def _mappings(node: YamlNode, path: Path) -> Iterator[tuple[Path, YamlNode]]:
    """What a key can be added to: mappings, and keys without a value. Not what an alias or a merge repeats."""
    if node.members is not None or (node.start == node.end and node.items is None):
        yield path, node
    for key, value in node.members or ():
        if not key.is_merge:
            yield from _mappings(value, (*path, key.written))
    for index, item in enumerate(node.items or ()):
        yield from _mappings(item, (*path, index))


def _added(text: Text, root: YamlNode, node: YamlNode, keys: tuple[str, ...], new: str) -> tuple[int, int, str]:
    """Where to write what: start, end and the text for what is between them."""
    if node is root and node.start == node.end:
        return _first(text.text, keys, new)
    if text.text.startswith("*", node.start):
        raise text.error("this mapping is an alias: a key that is added here would stand in its anchor", node.start)
    if text.text.startswith("{", node.start):
        members = [(key.start, value.end) for key, value in node.members or ()]
        group = BracketGroup(node.start + 1, node.end - 1, members, _COMMENT)
        return appended(text.text, group, _flow(keys, new))
    return _below(text, root, node, keys, new)


def _first(text: str, keys: tuple[str, ...], new: str) -> tuple[int, int, str]:
    """A line at the end of a file without values."""
    end, line = len(text), line_break(text, len(text))
    is_line = not text or text.endswith("\n")
    return end, end, f"{'' if is_line else line}{_block(keys, new, 0, 2, line)}{line if is_line else ''}"


def _below(text: Text, root: YamlNode, node: YamlNode, keys: tuple[str, ...], new: str) -> tuple[int, int, str]:
    """A line behind the last one of a block mapping, or behind a key without a value."""
    step = next(_steps(text, root), 2)
    first = node.members[0][0] if node.members else None
    column = text.column(first.start) - 1 if first else _key_column(text, node.start) + step
    end = line_end(text.text, _end(text, node))
    line = line_break(text.text, end)
    return end, end, line + " " * column + _block(keys, new, column, step, line)


def _key_column(text: Text, place: int) -> int:
    """The column, from 0, of the key whose missing value is at `place`."""
    line = text.text[line_start(text.text, place) : place]
    return len(line) - len(line.lstrip(" -"))


def _steps(text: Text, node: YamlNode) -> Iterator[int]:
    """How much deeper each block mapping stands than the one around it."""
    for key, value in node.members or ():
        if value.members and not text.text.startswith(("{", "*"), value.start):
            step = text.column(value.members[0][0].start) - text.column(key.start)
            if step > 0:
                yield step
        yield from _steps(text, value)


def _end(text: Text, node: YamlNode) -> int:
    """Where the last value in `node` ends."""
    last = node.members[-1][1] if node.members else node.items[-1] if node.items else None
    return node.end if last is None or text.text.startswith(("{", "[", "*"), node.start) else _end(text, last)


def _block(keys: tuple[str, ...], new: str, column: int, step: int, line: str) -> str:
    """The first key without its indentation, the others below each other."""
    deeper = (f"{line}{' ' * (column + step * depth)}{_string(key, '')}:" for depth, key in enumerate(keys[1:], 1))
    return f"{_string(keys[0], '')}:{''.join(deeper)} {new}"


def _flow(keys: tuple[str, ...], new: str) -> str:
    return ": {".join(_string(key, "") for key in keys) + f": {new}" + "}" * (len(keys) - 1)
