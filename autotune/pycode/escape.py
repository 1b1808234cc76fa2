"""Escape analysis: whether an object can reach code that may do anything with it."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from autotune.pycode.index import Index
from autotune.pycode.script_view import ScriptView
from autotune.syntax.python import last_name

READERS = frozenset({"enumerate", "iter", "len", "tqdm", "trange", "zip", "islice", "cycle"})
"""Functions that only read what they are given."""


def escapes(view: ScriptView, made: ast.Call) -> bool:
    """Whether what a call makes is passed to code of others, returned, stored or given a second name."""
    outer = view.index.parents.get(made)
    if isinstance(outer, ast.Assign):
        target = outer.targets[0]
        return len(outer.targets) > 1 or not isinstance(target, ast.Name) or name_escapes(view, target.id)
    return _use_escapes(view, made)


def name_escapes(view: ScriptView, name: str) -> bool:
    """Whether something of this name, a variable or an attribute, is given to code that may do anything with it."""
    return any(_use_escapes(view, one) for one in _uses(view.index, name))


def _uses(index: Index, name: str) -> Iterator[ast.expr]:
    """Everything of this name that is read, a variable or an attribute."""
    yield from index.reads.get(name, ())
    yield from (one for one in index.attributes.get(name, ()) if isinstance(one.ctx, ast.Load))


def _use_escapes(view: ScriptView, node: ast.expr) -> bool:
    """Whether more is done with an object than to ask it for a member, compare it, iterate over it, or put it into a
    container that does not escape."""
    outer = view.index.parents.get(node)
    if isinstance(outer, ast.keyword):
        outer = view.index.parents.get(outer)
    if isinstance(outer, ast.Call) and outer.func is not node:
        called = last_name(outer.func)
        return called not in READERS and (called not in view.models.containers or escapes(view, outer))
    return not isinstance(outer, ast.Attribute | ast.Compare | ast.If | ast.For | ast.comprehension | ast.Expr)
