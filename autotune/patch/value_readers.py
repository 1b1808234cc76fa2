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
from autotune.model.source import SCRIPTS
from autotune.patch import syntax_for
from autotune.pycode import cli_options
from autotune.pycode.build_index import build
from autotune.pycode.index import Index, base_name
from autotune.pycode.work_budget import TooComplex, Work
from autotune.syntax import python
from autotune.syntax.python import last_name

LOGS = ("print", "info", "debug", "warning", "write", "set_description", "set_postfix")
"""Calls that show a value and change nothing."""

_NAME, _ITEM, _MEMBER = "name", "item", "member"
"""How a value is read: workers, options["workers"], or that and args.workers."""


class _Named(Struct, frozen=True):
    """A name of a value."""

    name: str
    kind: str
    """How it is read."""
    file: str
    """The file that it belongs to; "" for every one."""


class _Target(Struct, frozen=True):
    """What an expression goes to."""

    named: _Named
    is_copy: bool
    """Whether it goes there just as it is, or as an item of a dict."""


class _Definition(Struct, frozen=True):
    """A function or class of a script."""

    file: str
    kind: str
    """How its code reads what its parameters get."""
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
    is_file = at.file != TYPED and not at.file.endswith(SCRIPTS)
    found = _references(read(at.file), given) if is_file else []
    same = [call.location for call in calls if (call.dialect, call.name) == (consumer.dialect, consumer.name)]
    spans = [(one.file, one.line, max(one.line, one.end_line)) for one in same]
    indexes = {file: _index(read(file), file) for file in (_scripts(at, calls) if consumer.name else ())}
    for file, line in _lines(indexes, at):
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
    if not edit.file.endswith(SCRIPTS):
        lines = [line for _, line in _interpolations(data, Location(edit.file, 1, key=edit.key), keys)]
    elif dot and not edit.key.startswith("-") and _takes_setting(head, calls):
        return
    else:
        start = span.start
        column = start - data.rfind(b"\n", 0, start)
        at = Location(edit.file, data.count(b"\n", 0, start) + 1, "add_argument", column=column, key=edit.key)
        index = _index(data, edit.file)
        named = (call for call in index.calls if _takes_setting(last_name(call.func), calls))
        within = {line for call in named for line in range(call.lineno, (call.end_lineno or call.lineno) + 1)}
        lines = [line for _, line in _lines({edit.file: index}, at) if line not in within]
    if lines:
        raise UsageError(f"it has other readers, at line {', '.join(map(str, lines[:_MOST]))}")


@cache
def _consumers(setting: str) -> tuple[frozenset[tuple[str, str]], frozenset[str]]:
    """The calls that take a setting, each with its dialect, and their keys for it."""
    found = [(name, one) for name in dialects() for one in readings(name, {}) if one.setting == setting]
    return frozenset((name, one.call) for name, one in found), frozenset(key for _, one in found for key in one.keys)


def _takes_setting(name: str, calls: frozenset[tuple[str, str]]) -> bool:
    return bool(name) and any(name == call or (call and is_own(dialect, name)) for dialect, call in calls)


def _references(data: bytes, given: WrittenValue) -> list[tuple[str, int]]:
    """The lines of a config that put ${key} into other values, where those are more than the one at hand."""
    return _interpolations(data, given.location, [given.key])


def _interpolations(data: bytes, at: Location, keys: Iterable[str]) -> list[tuple[str, int]]:
    entries = getattr(syntax_for.read(data, at.file), "entries", ())
    own = next((entry.key for entry in entries if entry.span == at.span), at.key)
    lines = [(at.file, entry.line) for entry in entries if f"${{{own}}}" in entry.text]
    is_through_one = not any(f".{own}".endswith(f".{key}") for key in keys)
    return lines if len(lines) > is_through_one else []


def _scripts(at: Location, calls: Sequence[ConsumerCall]) -> Iterator[str]:
    """The scripts that may read the value, that of its place first."""
    places = [at, *(call.location for call in calls)]
    places += [given.location for call in calls for given in call.arguments.values()]
    yield from dict.fromkeys(one.file for one in places if one.file.endswith(SCRIPTS))


def _index(data: bytes, file: str) -> Index:
    try:
        return build(python.read(data, file).tree, Work())
    except TooComplex as error:
        raise UsageError(f"{file} is too complex to find the other readers of a value: {error}") from None


def _lines(indexes: Mapping[str, Index], at: Location) -> list[tuple[str, int]]:
    """Where scripts read the value. In a log nothing is read, and a name that only repeats it stands for it."""
    own = [indexes[at.file]] if at.file in indexes else list(indexes.values())
    is_constant = at.file in indexes and not at.key.startswith("-")
    kinds = (_ITEM,) if is_constant and _is_item(own, at) else (_MEMBER, _NAME) if is_constant else (_MEMBER,)
    name = _variable(own, at)
    names = [_Named(name, kind, at.file if kind == _NAME else "") for kind in kinds]
    for file, index in indexes.items() if is_constant else ():
        names += [_Named(alias, _NAME, file) for alias in index.aliases.get(name, ())]
    definitions = {name: one for file, index in indexes.items() for name, one in _definitions(file, index)}
    seen: set[_Named] = set()
    lines: set[tuple[str, int]] = set()
    while names:
        named = names.pop()
        if named in seen:
            continue
        seen.add(named)
        for file in [named.file] if named.file else indexes:
            for node in _reads(indexes[file], named.name, named.kind):
                target = _target(file, indexes[file], node, definitions)
                if target is not None and target.is_copy:
                    names.append(target.named)
                elif target is None or any(_reads(indexes[file], target.named.name, _NAME)):
                    lines.add((file, node.lineno))
    return sorted(lines)


def _is_item(indexes: Sequence[Index], at: Location) -> bool:
    """Whether the value stands in a dict, of which it can only be read by its key, or with the whole dict."""
    dicts = (node for index in indexes for node in ast.walk(index.tree) if isinstance(node, ast.Dict))
    return (at.line, at.column - 1) in {(one.lineno, one.col_offset) for node in dicts for one in node.values}


def _variable(indexes: Sequence[Index], at: Location) -> str:
    """What the script calls the value: the last part of its key, unless its option says another `dest`."""
    calls = (call for index in indexes for call in index.calls if at.call)
    here = (call for call in calls if call.lineno <= at.line <= (call.end_lineno or 0))
    given = [one.value for call in here for one in call.keywords if one.arg == "dest"]
    own = next((one.value for one in given if isinstance(one, ast.Constant)), None)
    return str(own or at.key.lstrip("-").replace("-", "_").rpartition(".")[2])


def _definitions(file: str, index: Index) -> Iterator[tuple[str, _Definition]]:
    """The functions and classes of a script, by name."""
    for function in index.functions:
        yield function.name, _Definition(file, _NAME, tuple(one.arg for one in function.args.args))
    for class_ in index.classes:
        made = [one.node for one in index.inner[class_].bindings.get("__init__", ())]
        constructor = next((one for one in made if isinstance(one, ast.FunctionDef)), None)
        if constructor is not None:
            yield class_.name, _Definition(file, _NAME, tuple(one.arg for one in constructor.args.args[1:]))
        else:
            yield class_.name, _Definition(file, _MEMBER, tuple(cli_options.fields(index, class_)))


def _reads(index: Index, name: str, kind: str) -> Iterator[ast.expr]:
    """Each read of a name, of an item, or of an attribute or item, outside of logs. A dict that gets more items is not
    read there.

    An object that is passed on as a whole is not read: what gets it may read nothing of it.
    """
    found: list[ast.expr] = list(index.reads.get(name, ())) if kind == _NAME else []
    if kind == _MEMBER:
        found += [one for one in index.attributes.get(name, ()) if isinstance(one.ctx, ast.Load)]
    if kind != _NAME:
        keys = (_read_by_key(index, text, kind) for text in index.strings if text.value == name)
        found += [one for one in keys if one is not None]
    yield from (one for one in found if not _is_updated(index, one) and not _is_logged(index, one))


def _read_by_key(index: Index, key: ast.Constant, kind: str) -> ast.expr | None:
    """options["workers"], options.get("workers") and getattr(args, "workers"); the environment has names of its own."""
    outer = index.parents.get(key)
    if isinstance(outer, ast.Subscript):
        return outer if outer.slice is key and isinstance(outer.ctx, ast.Load) else None
    if not isinstance(outer, ast.Call):
        return None
    asked = last_name(outer.func)
    if asked == "getattr" and kind == _MEMBER:
        return outer if outer.args[1:2] == [key] else None
    is_dict = asked in ("get", "pop") and isinstance(outer.func, ast.Attribute) and base_name(outer) != "environ"
    return outer if is_dict and outer.args[:1] == [key] else None


def _is_updated(index: Index, node: ast.expr) -> bool:
    method = index.parents.get(node)
    call = index.parents.get(method) if isinstance(method, ast.Attribute) and method.attr == "update" else None
    return isinstance(call, ast.Call) and call.func is method


def _is_logged(index: Index, node: ast.expr) -> bool:
    return any(isinstance(outer, ast.Call) and last_name(outer.func) in LOGS for outer in index.ancestors(node))


def _target(file: str, index: Index, node: ast.expr, definitions: Mapping[str, _Definition]) -> _Target | None:
    """What an expression goes to: a parameter or a field of the scripts, or a name that is assigned."""
    outer = index.parents.get(node)
    keyword = outer if isinstance(outer, ast.keyword) else None
    call = index.parents.get(keyword) if keyword is not None else outer
    definition = (
        definitions.get(call.func.id) if isinstance(call, ast.Call) and isinstance(call.func, ast.Name) else None
    )
    if isinstance(call, ast.Call) and definition is not None and node is not call.func:
        names = definition.parameters
        given = dict(zip(call.args, names, strict=False)) if keyword is None else {node: keyword.arg}
        if given.get(node) in names:
            owner = definition.file if definition.kind == _NAME else ""
            return _Target(_Named(given[node] or "", definition.kind, owner), True)
    return _assignment_target(file, index, node)


def _assignment_target(file: str, index: Index, node: ast.expr) -> _Target | None:
    """What goes to a name, and what an object keeps just as it is: `self.workers = workers`."""
    inner: ast.AST = node
    for outer in index.ancestors(node):
        if isinstance(outer, ast.stmt):
            break
        inner = outer
    if not isinstance(outer, ast.Assign) or len(outer.targets) != 1 or inner is not outer.value:
        return None
    target, value = outer.targets[0], outer.value
    if isinstance(target, ast.Attribute) and last_name(target.value) == "self":
        return _Target(_Named(target.attr, _MEMBER, ""), True) if value is node else None
    if not isinstance(target, ast.Name):
        return None
    is_item = isinstance(value, ast.Dict) and any(one is node for one in value.values)
    return _Target(_Named(target.id, _NAME, file), value is node or is_item)
