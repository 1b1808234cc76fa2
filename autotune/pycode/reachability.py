"""Reachability: whether a run comes to a statement, by the conditions around it and around its callers."""

from __future__ import annotations

import ast

from autotune.pycode.functions import uses
from autotune.pycode.script_view import ScriptView
from autotune.pycode.values import is_true
from autotune.syntax.python import last_name

MAX_CALLS = 8


def is_reached(view: ScriptView, node: ast.AST, depth: int = 0) -> bool | None:
    """True when a run comes to `node`, False when none does, None when it is not known.

    What `view.models` assumes of the machine holds.
    """
    view = view.at(node)
    function: ast.AST | None = None
    found: bool | None = True
    inner = node
    for outer in view.index.ancestors(node):
        if isinstance(outer, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
            function = outer
            break
        holds = _holds_within(view, outer, inner)
        if holds is False:
            return False
        found = found if holds else None
        inner = outer
    called = _is_called(view, function, depth) if function is not None else True
    return False if called is False else found and called


def condition_holds(view: ScriptView, test: ast.expr) -> bool | None:
    """Whether a condition holds in a run; None when it is not known."""
    if is_main_guard(test):
        return not view.is_module
    known = is_true(view, test)
    if known is not None:
        return known
    return True if view.models.assumes(view.index, test) else None


def is_main_guard(test: ast.expr) -> bool:
    """`__name__ == "__main__"`."""
    return isinstance(test, ast.Compare) and last_name(test.left) == "__name__"


def _holds_within(view: ScriptView, outer: ast.AST, inner: ast.AST) -> bool | None:
    """Whether `outer`, when it runs, comes to `inner`, which is directly in it."""
    if isinstance(outer, ast.If | ast.IfExp):
        if inner is outer.test:
            return True
        if not is_else(outer, inner):
            return condition_holds(view, outer.test)
        known = is_true(view, outer.test)
        return None if known is None else not known
    if isinstance(outer, ast.ExceptHandler | ast.Match):
        return None
    return True


def is_else(outer: ast.If | ast.IfExp, inner: ast.AST) -> bool:
    """Whether `inner`, directly in `outer`, belongs to its other branch."""
    if isinstance(outer, ast.IfExp):
        return inner is outer.orelse
    return bool(outer.orelse) and getattr(inner, "lineno", 0) >= outer.orelse[0].lineno and inner is not outer.body[-1]


def _is_called(view: ScriptView, function: ast.AST, depth: int) -> bool | None:
    """Whether the file calls a function that it defines; methods and decorated functions are called by others.

    Those of an imported module may be called by other files.
    """
    if not isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef) or depth >= MAX_CALLS:
        return None
    parent = view.index.parents.get(function)
    if function.decorator_list or isinstance(parent, ast.ClassDef):
        return True
    if function not in view.reached:
        view.reached[function] = None
        reached = [is_reached(view, use, depth + 1) for use in uses(view.index, function)]
        all_false = bool(reached) and all(one is False for one in reached)
        view.reached[function] = True if any(reached) else False if all_false and not view.is_module else None
    return view.reached[function]
