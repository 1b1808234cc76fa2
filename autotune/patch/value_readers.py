"""Who else reads what an edit changes: the default of an option, a constant of a module, a key of a config."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cache

from msgspec import Struct

from autotune.catalogue.dialects import dialects, is_own, readings
from autotune.errors import UsageError
from autotune.model.evidence import Location, Span
from autotune.model.patch import Edit
from autotune.model.scanned import TYPED, ConsumerCall, WrittenValue
from autotune.patch import syntax_for
from autotune.syntax import python
from autotune.syntax.python import last_name

LOGS = ("print", "info", "debug", "warning", "write", "set_description", "set_postfix")
"""Calls that show a value and change nothing."""

_NAME, _ITEM, _MEMBER = "name", "item", "member"
"""How a value is read: workers, options["workers"], or that and args.workers."""


class _Named(Struct, frozen=True):
    """A name of a value, how it is read, and the file that it belongs to ("": every one)."""

    name: str
    kind: str
    file: str


class _Target(Struct, frozen=True):
    """What an expression goes to, and whether just as it is."""

    named: _Named
    is_copy: bool


class ConstructorCall(Struct, frozen=True):
    """A function or class of a script: how its code reads what its parameters get."""

    file: str
    kind: str
    parameters: tuple[str, ...]


_MOST = 3
"""Lines that an error names."""


def check(
    given: WrittenValue, consumer: ConsumerCall, calls: Sequence[ConsumerCall], read: Callable[[str], bytes]
) -> None:
    """Raises UsageError, which names the lines, when more than such a consumer reads the value that it is given.

    Calls of the consumer's name may read it too: the loaders of a script have one number of workers.
    """
    at = given.location
    if not at.key or (at.call and at.call == consumer.name.rpartition(".")[2]):
        return
    is_file = at.file != TYPED and not at.file.endswith(".py")
    found = _references(read(at.file), given) if is_file else []
    same = [call.location for call in calls if (call.dialect, call.name) == (consumer.dialect, consumer.name)]
    spans = [(one.file, one.line, max(one.line, one.end_line)) for one in same]
    trees = {file: python.read(read(file), file).tree for file in (_scripts(at, calls) if consumer.name else ())}
    for file, line in _lines(trees, at):
        if not any(file == name and first <= line <= last for name, first, last in spans):
            found.append((file, line))
    if found:
        places = ", ".join(f"{file}:{line}" for file, line in found[:_MOST])
        raise UsageError(f"{at.key} has other readers, at {places}")


def recheck(data: bytes, edit: Edit, span: Span, setting: str) -> None:
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
        start = span.start
        column = start - data.rfind(b"\n", 0, start)
        at = Location(edit.file, data.count(b"\n", 0, start) + 1, "add_argument", column=column, key=edit.key)
        tree = python.read(data, edit.file).tree
        named = (node for node in ast.walk(tree) if isinstance(node, ast.Call) and _takes(last_name(node.func), calls))
        within = {line for node in named for line in range(node.lineno, (node.end_lineno or node.lineno) + 1)}
        lines = [line for _, line in _lines({edit.file: tree}, at) if line not in within]
    if lines:
        raise UsageError(f"it has other readers, at line {', '.join(map(str, lines[:_MOST]))}")


@cache
def _consumers(setting: str) -> tuple[frozenset[tuple[str, str]], frozenset[str]]:
    """The calls that take a setting, each with its dialect, and their keys for it."""
    found = [(name, one) for name in dialects() for one in readings(name, {}) if one.setting == setting]
    return frozenset((name, one.call) for name, one in found), frozenset(key for _, one in found for key in one.keys)


def _takes(name: str, calls: frozenset[tuple[str, str]]) -> bool:
    return bool(name) and any(name == call or (call and is_own(dialect, name)) for dialect, call in calls)


def _references(data: bytes, given: WrittenValue) -> list[tuple[str, int]]:
    """The lines of a config that put ${key} into other values, where those are more than the one at hand."""
    return _put(data, given.location, [given.key])


def _put(data: bytes, at: Location, keys: Iterable[str]) -> list[tuple[str, int]]:
    entries = getattr(syntax_for.read(data, at.file), "entries", ())
    own = next((entry.key for entry in entries if entry.span == at.span), at.key)
    lines = [(at.file, entry.line) for entry in entries if f"${{{own}}}" in entry.text]
    is_through_one = not any(f".{own}".endswith(f".{key}") for key in keys)
    return lines if len(lines) > is_through_one else []


def _scripts(at: Location, calls: Sequence[ConsumerCall]) -> Iterator[str]:
    """The scripts that may read the value, that of its place first."""
    places = [at, *(call.location for call in calls)]
    places += [given.location for call in calls for given in call.arguments.values()]
    yield from dict.fromkeys(one.file for one in places if one.file.endswith(".py"))


def _lines(trees: Mapping[str, ast.Module], at: Location) -> list[tuple[str, int]]:
    """Where scripts read the value. In a log nothing is read, and a name that only repeats it stands for it."""
    nodes = {file: list(_unlogged(tree)) for file, tree in trees.items()}
    own = nodes.get(at.file, [node for each in nodes.values() for node in each])
    is_constant = at.file in nodes and not at.key.startswith("-")
    kinds = (_ITEM,) if is_constant and _is_item(own, at) else (_MEMBER, _NAME) if is_constant else (_MEMBER,)
    name = _variable(own, at)
    names = [_Named(name, kind, at.file if kind == _NAME else "") for kind in kinds]
    names += [_Named(name, _NAME, file) for file in nodes if is_constant and _imports(nodes[file], name)]
    makers = {one: maker for file in nodes for one, maker in _makers(file, nodes[file])}
    targets = {file: _targets(file, nodes[file], makers) for file in nodes}
    seen: set[_Named] = set()
    lines: set[tuple[str, int]] = set()
    while names:
        named = names.pop()
        if named in seen:
            continue
        seen.add(named)
        for file in [named.file] if named.file else nodes:
            for node in _reads(nodes[file], named.name, named.kind):
                target = targets[file].get(id(node))
                if target is not None and target.is_copy:
                    names.append(target.named)
                elif target is None or any(_reads(nodes[file], target.named.name, _NAME)):
                    lines.add((file, node.lineno))
    return sorted(lines)


def _imports(nodes: Sequence[ast.AST], name: str) -> bool:
    """Whether a script takes a constant from another file."""
    return any(isinstance(node, ast.ImportFrom) and any(one.name == name for one in node.names) for node in nodes)


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


def _makers(file: str, nodes: Sequence[ast.AST]) -> Iterator[tuple[str, ConstructorCall]]:
    """The functions and classes of a script: what gets their arguments."""
    for node in nodes:
        if isinstance(node, ast.FunctionDef):
            yield node.name, ConstructorCall(file, _NAME, tuple(one.arg for one in node.args.args))
        elif isinstance(node, ast.ClassDef):
            methods = [one for one in node.body if isinstance(one, ast.FunctionDef) and one.name == "__init__"]
            fields = tuple(last_name(one.target) for one in node.body if isinstance(one, ast.AnnAssign))
            given = tuple(one.arg for one in methods[0].args.args[1:]) if methods else fields
            yield node.name, ConstructorCall(file, _NAME if methods else _MEMBER, given)


def _targets(file: str, nodes: Sequence[ast.AST], makers: Mapping[str, ConstructorCall]) -> Mapping[int, _Target]:
    """By the id of an expression: the name that it goes to, and whether just as it is, or as an item of a dict.

    A name is assigned, or is a parameter of a function of the scripts, or a field of an object of theirs.
    """
    found: dict[int, _Target] = {}
    for node in nodes:
        if isinstance(node, ast.Assign) and len(node.targets) == 1:
            found |= _assigned(file, node.targets[0], node.value)
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in makers:
            maker = makers[node.func.id]
            given = [*zip(maker.parameters, node.args, strict=False)]
            given += [(one.arg, one.value) for one in node.keywords if one.arg in maker.parameters and one.arg]
            owner = maker.file if maker.kind == _NAME else ""
            found |= {id(value): _Target(_Named(name, maker.kind, owner), True) for name, value in given}
    return found


def _assigned(file: str, target: ast.expr, value: ast.expr) -> dict[int, _Target]:
    """What goes to a name, and what an object keeps just as it is: `self.workers = workers`."""
    if isinstance(target, ast.Attribute) and last_name(target.value) == "self":
        return {id(value): _Target(_Named(target.attr, _MEMBER, ""), True)}
    if not isinstance(target, ast.Name):
        return {}
    whole = [value, *(value.values if isinstance(value, ast.Dict) else ())]
    named = _Named(target.id, _NAME, file)
    return {id(part): _Target(named, any(part is one for one in whole)) for part in ast.walk(value)}


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
