"""The entries of a dict: those of its literal, and those that are added afterwards."""

from __future__ import annotations

import ast
from collections.abc import Iterable
from functools import reduce

from autotune.pycode.index import Index
from autotune.pycode.script_view import DictEntries, ScriptView
from autotune.syntax.python import last_name

MAX_DEPTH = 10

MAX_KEYS = 200
"""Keys of one dict; no call has more arguments."""

CHANGES = frozenset({"update", "pop", "setdefault", "clear"})
"""Methods that change a dict."""

BRANCHES = (ast.If, ast.For, ast.AsyncFor, ast.While, ast.Try, ast.ExceptHandler, ast.Match, ast.IfExp)


OPEN = DictEntries(is_open=True)


def dict_entries(view: ScriptView, node: ast.expr, depth: int = 0) -> DictEntries:
    """What the dict of an expression holds."""
    view = view.at(node)
    if depth > MAX_DEPTH:
        return OPEN
    bindings = view.index.lookup(node) if isinstance(node, ast.Name) else ()
    known = bindings[0].node if bindings else node
    if known not in view.entries:
        view.entries[known] = OPEN  # while it is being followed
        found = _entries_of_expression(view, node, depth + 1)
        view.entries[known] = found if len(found.values) <= MAX_KEYS else OPEN
    return view.entries[known]


def _entries_of_expression(view: ScriptView, node: ast.expr, depth: int) -> DictEntries:
    if isinstance(node, ast.Dict):
        pairs = zip(node.keys, node.values, strict=True)
        return _merge(_entry_of_pair(view, key, value, depth) for key, value in pairs)
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "dict":
        copied = [dict_entries(view, one, depth) for one in node.args]
        return _merge([*copied, *(_entry_of_keyword(view, one, depth) for one in node.keywords)])
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.BitOr):
        return _merge([dict_entries(view, node.left, depth), dict_entries(view, node.right, depth)])
    if isinstance(node, ast.IfExp):
        return _join_branches(dict_entries(view, node.body, depth), dict_entries(view, node.orelse, depth))
    return _entries_of_name(view, node, depth) if isinstance(node, ast.Name) else OPEN


def conditions(index: Index, node: ast.AST) -> frozenset[ast.AST]:
    """The branches and loops around `node` in its function, and the function itself."""
    around = {one for one in index.ancestors_in_function(node) if isinstance(one, BRANCHES)}
    return frozenset(around | {index.enclosing_function(node) or index.tree})


def _entry_of_pair(view: ScriptView, key: ast.expr | None, value: ast.expr, depth: int) -> DictEntries:
    if key is None:
        return dict_entries(view, value, depth)
    return DictEntries({str(key.value): (value,)}) if isinstance(key, ast.Constant) else OPEN


def _entry_of_keyword(view: ScriptView, keyword: ast.keyword, depth: int) -> DictEntries:
    return (
        dict_entries(view, keyword.value, depth)
        if keyword.arg is None
        else DictEntries({keyword.arg: (keyword.value,)})
    )


def _entries_of_name(view: ScriptView, node: ast.Name, depth: int) -> DictEntries:
    bindings = view.index.lookup(node)
    values = [binding.value for binding in bindings if binding.kind == "value" and binding.value is not None]
    if not bindings or len(values) != len(bindings):
        return OPEN
    start = reduce(_join_branches, [dict_entries(view, value, depth) for value in values])
    at = conditions(view.index, bindings[0].node)
    changes = _later_entries(view, node, depth)
    added = [_all_optional(change) if conditions(view.index, place) - at else change for place, change in changes]
    return _merge([start, *added])


def _later_entries(view: ScriptView, node: ast.Name, depth: int) -> list[tuple[ast.AST, DictEntries]]:
    """What is added to the dict of a name: by update, by key; taking out a key leaves it open."""
    index = view.index
    bindings = index.lookup(node)
    found: list[tuple[ast.AST, DictEntries]] = []
    for call in index.methods.get(node.id, ()):
        base = call.func.value if isinstance(call.func, ast.Attribute) else None
        if last_name(call.func) in CHANGES and isinstance(base, ast.Name) and index.lookup(base) is bindings:
            is_added = last_name(call.func) == "update"
            added = [dict_entries(view, one, depth) if is_added else OPEN for one in call.args]
            found.append((call, _merge([*added, *(_entry_of_keyword(view, one, depth) for one in call.keywords)])))
    for store in index.items.get(node.id, ()):
        if isinstance(store.base, ast.Name) and index.lookup(store.base) is bindings:
            key = store.node.slice if isinstance(store.node, ast.Subscript) else None
            found.append((store.node, _entry_of_pair(view, key, store.value, depth) if key and store.value else OPEN))
    return sorted(found, key=lambda change: getattr(change[0], "lineno", 0))


def _merge(parts: Iterable[DictEntries]) -> DictEntries:
    """One after another: a later value replaces an earlier one, unless it may be missing; an open part may any."""
    values: dict[str, tuple[ast.expr, ...]] = {}
    maybe: set[str] = set()
    is_open = False
    for part in parts:
        maybe |= values.keys() if part.is_open else set()
        for key, added in part.values.items():
            if key not in part.maybe:
                values[key] = added
                maybe.discard(key)
            else:
                maybe |= {key} - values.keys()
                values[key] = _union(values.get(key, ()), added)
        is_open |= part.is_open
    return DictEntries(values, frozenset(maybe), is_open)


def _join_branches(one: DictEntries, other: DictEntries) -> DictEntries:
    keys = {**one.values, **other.values}
    both = one.values.keys() & other.values.keys()
    values = {key: _union(one.values.get(key, ()), other.values.get(key, ())) for key in keys}
    maybe = one.maybe | other.maybe | (keys.keys() - both)
    return DictEntries(values, frozenset(maybe), one.is_open or other.is_open)


def _union(some: tuple[ast.expr, ...], more: tuple[ast.expr, ...]) -> tuple[ast.expr, ...]:
    """Each expression once: two branches often hold the same one, and branches of branches multiply."""
    return tuple(dict.fromkeys((*some, *more)))


def _all_optional(part: DictEntries) -> DictEntries:
    return DictEntries(part.values, frozenset(part.values), part.is_open)
