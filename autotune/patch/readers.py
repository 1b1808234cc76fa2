"""Who else reads what an edit changes: the default of an option, a constant of a module, a key of a config."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cache

from autotune.catalogue.dialects import dialects, is_own, readings
from autotune.errors import UsageError
from autotune.model.evidence import Location
from autotune.model.patch import Edit
from autotune.model.scanned import TYPED, Call, Given
from autotune.patch import spell
from autotune.syntax import python
from autotune.syntax.edit_python import last_name

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
    if not at.key or (at.call and at.call == consumer.name.rpartition(".")[2]):
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


def check_again(data: bytes, edit: Edit, setting: str) -> None:
    """Raises UsageError, which names the lines, when the file of an edit reads the old value for something else too.

    The file changed since the diagnosis, of which an edit knows no consumer: every call that takes `setting` is one.
    """
    calls, keys = _consumers(setting)
    head, dot, _ = edit.key.partition(".")
    if not edit.file.endswith(".py"):
        lines = [line for _, line in _put(data, Location(edit.file, 1, key=edit.key), keys)]
    elif dot and not edit.key.startswith("-") and _takes(head, calls):
        return
    else:
        start = edit.span.start
        column = start - data.rfind(b"\n", 0, start)
        at = Location(edit.file, data.count(b"\n", 0, start) + 1, "add_argument", column=column, key=edit.key)
        tree = python.read(data, edit.file).tree
        named = (node for node in ast.walk(tree) if isinstance(node, ast.Call) and _takes(last_name(node.func), calls))
        within = {line for node in named for line in range(node.lineno, (node.end_lineno or node.lineno) + 1)}
        lines = [line for line in _lines(tree, at) if line not in within]
    if lines:
        raise UsageError(f"it is read for something else too, at line {', '.join(map(str, lines[:_MOST]))}")


@cache
def _consumers(setting: str) -> tuple[frozenset[tuple[str, str]], frozenset[str]]:
    """The calls that take a setting, each with its dialect, and their keys for it."""
    found = [(name, one) for name in dialects() for one in readings(name, {}) if one.setting == setting]
    return frozenset((name, one.call) for name, one in found), frozenset(key for _, one in found for key in one.keys)


def _takes(name: str, calls: frozenset[tuple[str, str]]) -> bool:
    return bool(name) and any(name == call or (call and is_own(dialect, name)) for dialect, call in calls)


def _references(data: bytes, given: Given) -> list[tuple[str, int]]:
    """The lines of a config that put ${key} into other values, where those are more than the one at hand."""
    return _put(data, given.location, [given.key])


def _put(data: bytes, at: Location, keys: Iterable[str]) -> list[tuple[str, int]]:
    entries = getattr(spell.read(data, at.file), "entries", ())
    own = next((entry.key for entry in entries if entry.span == at.span), at.key)
    lines = [(at.file, entry.line) for entry in entries if f"${{{own}}}" in entry.text]
    is_through_one = not any(f".{own}".endswith(f".{key}") for key in keys)
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
    """Each read of a name, of an item, or of an attribute or item. A dict that gets more items is not read there.

    An object that is passed on as a whole is not read: what gets it may read nothing of it.
    """
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
    if isinstance(node, ast.Call):
        return None if kind == _NAME else _asked_for(node, kind)
    if not isinstance(getattr(node, "ctx", None), ast.Load):
        return None
    if kind == _NAME:
        return node.id if isinstance(node, ast.Name) else None
    if isinstance(node, ast.Subscript) and isinstance(node.slice, ast.Constant):
        return node.slice.value
    return node.attr if kind == _MEMBER and isinstance(node, ast.Attribute) else None


def _asked_for(call: ast.Call, kind: str) -> object:
    """The name in options.get("workers"), and in getattr(args, "workers"); the environment has names of its own."""
    asked = last_name(call.func)
    given: Sequence[ast.expr] = ()
    if asked == "getattr" and kind == _MEMBER:
        given = call.args[1:2]
    elif asked in ("get", "pop") and isinstance(call.func, ast.Attribute) and last_name(call.func.value) != "environ":
        given = call.args[:1]
    return given[0].value if given and isinstance(given[0], ast.Constant) else None


def _unlogged(tree: ast.AST) -> Iterator[ast.AST]:
    """Every node but those in a call that only shows values."""
    left = [tree]
    while left:
        node = left.pop()
        if not (isinstance(node, ast.Call) and last_name(node.func) in LOGS):
            yield node
            left += ast.iter_child_nodes(node)
