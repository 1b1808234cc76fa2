"""Who else reads what an edit changes: the default of an option, a constant of a module, a key of a config."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator, Sequence

from autotune.errors import UsageError
from autotune.model.evidence import Location
from autotune.model.scanned import TYPED, Call, Given
from autotune.patch import spell
from autotune.syntax import python

LOGS = ("print", "info", "debug", "warning", "write", "set_description", "set_postfix")
"""Calls that show a value and change nothing."""

_MOST = 3
"""Lines that an error names."""


def check(given: Given, consumer: Call, calls: Sequence[Call], read: Callable[[str], bytes]) -> None:
    """Raises UsageError, which names the lines, when more than such a consumer reads the value that it is given.

    Calls of the consumer's name may read it too: the loaders of a script have one number of workers.
    """
    at = given.location
    if not at.key or (at.call and at.call == consumer.name):
        return
    is_file = at.file != TYPED and not at.file.endswith(".py")
    found = _references(read(at.file), given) if is_file else []
    files = [name for name in (at.file, consumer.location.file) if name.endswith(".py")] if consumer.name else []
    same = [call.location for call in calls if (call.dialect, call.name) == (consumer.dialect, consumer.name)]
    for file in dict.fromkeys(files):
        spans = [(one.line, max(one.line, one.end_line)) for one in same if one.file == file]
        lines = _lines(python.read(read(file), file).tree, at)
        found += [(file, line) for line in lines if not any(first <= line <= last for first, last in spans)]
    if found:
        places = ", ".join(f"{file}:{line}" for file, line in found[:_MOST])
        raise UsageError(f"{at.key} is read for something else too, at {places}")


def _references(data: bytes, given: Given) -> list[tuple[str, int]]:
    """The lines of a config that put ${key} into other values, where those are more than the one at hand."""
    at = given.location
    entries = getattr(spell.read(data, at.file), "entries", ())
    own = next((entry.key for entry in entries if entry.span == at.span), at.key)
    lines = [(at.file, entry.line) for entry in entries if f"${{{own}}}" in entry.text]
    is_through_one = not f".{own}".endswith(f".{given.key}")
    return lines if len(lines) > is_through_one else []


def _lines(tree: ast.Module, at: Location) -> list[int]:
    """Where a script reads the value. In a log nothing is read, and a name that only repeats it stands for it."""
    nodes = list(_unlogged(tree))
    is_constant = at.file.endswith(".py") and not at.key.startswith("-")
    names = [(_variable(nodes, at), is_plain) for is_plain in (False, is_constant)]
    seen: set[tuple[str, bool]] = set()
    lines: set[int] = set()
    while names:
        name, is_plain = names.pop()
        if (name, is_plain) in seen:
            continue
        seen.add((name, is_plain))
        for node, target, is_copy in _reads(nodes, name, is_plain=is_plain):
            if is_copy:
                names.append((target, True))
            elif not target or any(_reads(nodes, target, is_plain=True)):
                lines.add(node.lineno)
    return sorted(lines)


def _variable(nodes: Sequence[ast.AST], at: Location) -> str:
    """What the script calls the value: the last part of its key, unless its option says another `dest`."""
    here = (node for node in nodes if isinstance(node, ast.Call) and node.lineno <= at.line <= (node.end_lineno or 0))
    given = [one.value for call in here if at.call for one in call.keywords if one.arg == "dest"]
    own = next((one.value for one in given if isinstance(one, ast.Constant)), None)
    return str(own or at.key.lstrip("-").replace("-", "_").rpartition(".")[2])


def _reads(nodes: Sequence[ast.AST], name: str, *, is_plain: bool) -> Iterator[tuple[ast.expr, str, bool]]:
    """Each read of a variable, or of an attribute or item: with the name it is assigned to, and whether just as it is.

    The name is "" where the value goes elsewhere.
    """
    targets = {
        id(part): (node.targets[0].id, part is node.value)
        for node in nodes
        if isinstance(node, ast.Assign) and len(node.targets) == 1 and isinstance(node.targets[0], ast.Name)
        for part in ast.walk(node.value)
    }
    for node in nodes:
        if isinstance(node, ast.expr) and _read_name(node, is_plain=is_plain) == name:
            yield node, *targets.get(id(node), ("", False))


def _read_name(node: ast.expr, *, is_plain: bool) -> object:
    if not isinstance(getattr(node, "ctx", None), ast.Load):
        return None
    if is_plain:
        return node.id if isinstance(node, ast.Name) else None
    if isinstance(node, ast.Subscript) and isinstance(node.slice, ast.Constant):
        return node.slice.value
    return node.attr if isinstance(node, ast.Attribute) else None


def _unlogged(tree: ast.AST) -> Iterator[ast.AST]:
    """Every node but those in a call that only shows values."""
    left = [tree]
    while left:
        node = left.pop()
        if not (isinstance(node, ast.Call) and _called(node.func) in LOGS):
            yield node
            left += ast.iter_child_nodes(node)


def _called(node: ast.expr) -> str:
    return node.attr if isinstance(node, ast.Attribute) else node.id if isinstance(node, ast.Name) else ""
