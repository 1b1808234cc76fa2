"""Whether the script comes to a statement: the conditions around it, and around the calls of its function."""

from __future__ import annotations

import ast
import re

from autotune.pycode.functions import uses
from autotune.pycode.index import Index, last_name
from autotune.pycode.script_view import ScriptView
from autotune.pycode.values import is_true

MAX_CALLS = 8

DEVICE = re.compile(r"cuda|gpu|device|accelerator", re.IGNORECASE)
"""What the name of a condition on the hardware has: it holds where there is a GPU, and the facts speak of that."""

RANK = re.compile(r"rank|main_process|is_master|master_process|global_zero", re.IGNORECASE)
"""What the name of a condition on the process has: it holds in one of them."""


def is_reached(view: ScriptView, node: ast.AST, depth: int = 0) -> bool | None:
    """True when a run on a GPU comes to `node`, False when none does, None when it is not known."""
    view = view.at(node)
    function: ast.AST | None = None
    found: bool | None = True
    inner = node
    for outer in view.index.up(node):
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


def holds(view: ScriptView, test: ast.expr) -> bool | None:
    """Whether a condition holds in a run on a GPU; None when it is not known."""
    if is_main_guard(test):
        return not view.is_module
    known = is_true(view, test)
    if known is not None:
        return known
    return True if _is_device(view.index, test) or _is_rank(test) else None


def is_main_guard(test: ast.expr) -> bool:
    """`__name__ == "__main__"`."""
    return isinstance(test, ast.Compare) and last_name(test.left) == "__name__"


def _holds_within(view: ScriptView, outer: ast.AST, inner: ast.AST) -> bool | None:
    """Whether `outer`, when it runs, comes to `inner`, which is directly in it."""
    if isinstance(outer, ast.If | ast.IfExp):
        if inner is outer.test:
            return True
        if not is_else(outer, inner):
            return holds(view, outer.test)
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


def _is_device(index: Index, test: ast.expr) -> bool:
    """A condition that asks for a GPU: `use_cuda`, `device == "cuda"`, `torch.cuda.device_count() > 1`."""
    if isinstance(test, ast.UnaryOp):
        return False
    if isinstance(test, ast.BoolOp):
        return isinstance(test.op, ast.And) and all(_is_device(index, one) for one in test.values)
    if isinstance(test, ast.Compare):
        right = test.comparators[0]
        is_other = isinstance(right, ast.Constant) and (right.value is None or "cpu" in str(right.value))
        return isinstance(test.ops[0], ast.Eq | ast.Gt | ast.GtE) and not is_other and _names(test.left, DEVICE)
    return _names(test, DEVICE)


def _is_rank(test: ast.expr) -> bool:
    """A condition that one of the processes meets: `rank == 0`, `RANK in {-1, 0}`, `accelerator.is_main_process`."""
    if isinstance(test, ast.Compare):
        return isinstance(test.ops[0], ast.Eq | ast.In) and _names(test.left, RANK)
    return _names(test, RANK)


def _names(node: ast.expr, pattern: re.Pattern[str]) -> bool:
    """Whether a dotted name, or what is called, has the pattern in it."""
    parts = []
    while isinstance(node, ast.Attribute | ast.Call | ast.Subscript):
        parts.append(node.attr if isinstance(node, ast.Attribute) else "")
        node = node.func if isinstance(node, ast.Call) else node.value
    parts.append(node.id if isinstance(node, ast.Name) else "")
    return any(pattern.search(part) for part in parts)
