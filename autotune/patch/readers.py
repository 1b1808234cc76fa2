"""Who else reads what an edit changes: the default of an option, a constant of a module, a key of a config."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator, Mapping, Sequence

from autotune.errors import UsageError
from autotune.model.evidence import Location
from autotune.model.scanned import TYPED, Call, Given
from autotune.patch import spell
from autotune.syntax import python

LOGS = ("print", "info", "debug", "warning", "write", "set_description", "set_postfix")
"""Calls that show a value and change nothing."""

_NAME, _ITEM, _MEMBER = "name", "item", "member"
"""How a value is read: workers, options["workers"], or that and args.workers."""

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
    kinds = (_ITEM,) if is_constant and _is_item(nodes, at) else (_MEMBER, _NAME) if is_constant else (_MEMBER,)
    names = [(_variable(nodes, at), kind) for kind in kinds]
    targets = _targets(nodes)
    seen: set[tuple[str, str]] = set()
    lines: set[int] = set()
    while names:
        name, kind = names.pop()
        if (name, kind) in seen:
            continue
        seen.add((name, kind))
        for node in _reads(nodes, name, kind):
            target, is_copy = targets.get(id(node), ("", False))
            if is_copy:
                names.append((target, _NAME))
            elif not target or any(_reads(nodes, target, _NAME)):
                lines.add(node.lineno)
    return sorted(lines)


def _is_item(nodes: Sequence[ast.AST], at: Location) -> bool:
    """Whether the value stands in a dict, of which it can only be read by its key, or with the whole dict."""
    places = {(one.lineno, one.col_offset) for node in nodes if isinstance(node, ast.Dict) for one in node.values}
    return (at.line, at.column - 1) in places


def _variable(nodes: Sequence[ast.AST], at: Location) -> str:
    """What the script calls the value: the last part of its key, unless its option says another `dest`."""
    here = (node for node in nodes if isinstance(node, ast.Call) and node.lineno <= at.line <= (node.end_lineno or 0))
    given = [one.value for call in here if at.call for one in call.keywords if one.arg == "dest"]
    own = next((one.value for one in given if isinstance(one, ast.Constant)), None)
    return str(own or at.key.lstrip("-").replace("-", "_").rpartition(".")[2])


def _reads(nodes: Sequence[ast.AST], name: str, kind: str) -> Iterator[ast.expr]:
    """Each read of a name, of an item, or of an attribute or item. A dict that gets more items is not read there."""
    updated = {
        id(node.func.value)
        for node in nodes
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "update"
    }
    for node in nodes:
        if isinstance(node, ast.expr) and _read_name(node, kind) == name and id(node) not in updated:
            yield node


def _targets(nodes: Sequence[ast.AST]) -> Mapping[int, tuple[str, bool]]:
    """By the id of an expression: the name that it goes to, and whether just as it is, or as an item of a dict.

    A name is assigned, or is a parameter of a function of the script.
    """
    functions = {node.name: [one.arg for one in node.args.args] for node in nodes if isinstance(node, ast.FunctionDef)}
    found: dict[int, tuple[str, bool]] = {}
    for node in nodes:
        if isinstance(node, ast.Assign) and len(node.targets) == 1 and isinstance(node.targets[0], ast.Name):
            name = node.targets[0].id
            whole = [node.value, *(node.value.values if isinstance(node.value, ast.Dict) else ())]
            found |= {id(part): (name, any(part is one for one in whole)) for part in ast.walk(node.value)}
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in functions:
            found |= {id(value): (name, True) for name, value in zip(functions[node.func.id], node.args, strict=False)}
            found |= {id(one.value): (one.arg, True) for one in node.keywords if one.arg in functions[node.func.id]}
    return found


def _read_name(node: ast.expr, kind: str) -> object:
    if not isinstance(getattr(node, "ctx", None), ast.Load):
        return None
    if kind == _NAME:
        return node.id if isinstance(node, ast.Name) else None
    if isinstance(node, ast.Subscript) and isinstance(node.slice, ast.Constant):
        return node.slice.value
    return node.attr if kind == _MEMBER and isinstance(node, ast.Attribute) else None


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
