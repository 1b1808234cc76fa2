"""Calls that a script makes in one way for old releases of a library and in another for new ones."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from autotune.pycode.script_view import ScriptView
from autotune.syntax.python import last_name

RELEASE = re.compile(r"version|signature\(|\bhasattr\(|__dataclass_fields__|__annotations__|\bfields\(", re.IGNORECASE)
"""What a condition has that asks what a release takes: `trl.__version__ < "0.16"`, `"x" in signature(f)`."""

MAX_NAMES = 3
"""Names that are followed one behind another from a condition to what it was given."""


def asks_release(view: ScriptView, node: ast.Call) -> bool:
    """Whether a call stands in a branch that the release decides, or beside one that is made where it fails."""
    inner: ast.AST = node
    for outer in view.index.ancestors_in_function(node):
        if isinstance(outer, ast.If | ast.IfExp) and inner is not outer.test and _is_about_release(view, outer.test):
            return True
        if isinstance(outer, ast.Try) and any(
            last_name(one.func) == last_name(node.func) for one in _other(outer, inner)
        ):
            return True
        inner = outer
    return False


def _other(outer: ast.Try, inner: ast.AST) -> Iterator[ast.Call]:
    """The calls of the other parts of a `try`: its handlers for its body, its body for a handler."""
    parts: list[ast.AST] = [*outer.body] if inner in outer.handlers else [*outer.handlers, *outer.orelse]
    if inner in outer.body or inner in outer.handlers:
        yield from (one for part in parts for one in ast.walk(part) if isinstance(one, ast.Call))


def _is_about_release(view: ScriptView, test: ast.expr, depth: int = 0) -> bool:
    if RELEASE.search(ast.unparse(test)):
        return True
    names = [one for one in ast.walk(test) if isinstance(one, ast.Name)] if depth < MAX_NAMES else []
    given = [bound.value for name in names for bound in view.index.lookup(name) if bound.value is not None]
    return any(_is_about_release(view, one, depth + 1) for one in given)
