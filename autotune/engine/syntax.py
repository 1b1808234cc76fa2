"""Text to Python's syntax tree, within bounds, and what can be read off the tree. Nothing is run."""

from __future__ import annotations

import ast
import warnings
from functools import cache

from autotune.catalogue import kinds
from autotune.errors import RuleError

MAX_LENGTH = 4000
MAX_DEPTH = 40
MAX_SHOWN = 60


@cache
def parse(text: str) -> ast.expr:
    """The syntax tree of `text`, shared: not to be changed.

    Raises RuleError when the text is none, or is too long or too deep to be honest.
    """
    if len(text) > MAX_LENGTH:
        raise RuleError(f"longer than {MAX_LENGTH} characters")
    try:
        with warnings.catch_warnings(action="ignore"):
            tree = ast.parse(f"({text}\n)", mode="eval").body
    except (SyntaxError, ValueError, MemoryError, RecursionError) as error:
        reason = error.msg if isinstance(error, SyntaxError) else str(error)
        raise RuleError(f"not an expression: {reason}") from None
    _check_depth(tree)
    return tree


def _check_depth(tree: ast.expr) -> None:
    level: list[ast.AST] = [tree]
    for _ in range(MAX_DEPTH):
        level = [child for node in level for child in ast.iter_child_nodes(node)]
        if not level:
            return
    raise RuleError(f"nested deeper than {MAX_DEPTH} levels")


def dotted(tree: ast.expr) -> str:
    """The dotted name that `tree` writes, "" when it is none."""
    if isinstance(tree, ast.Name):
        return tree.id
    head = dotted(tree.value) if isinstance(tree, ast.Attribute) else ""
    return f"{head}.{tree.attr}" if isinstance(tree, ast.Attribute) and head else ""


def names_in(tree: ast.expr) -> tuple[str, ...]:
    """The facts and settings that `tree` reads."""
    words = (dotted(node) for node in ast.walk(tree) if isinstance(node, ast.Attribute))
    return tuple(dict.fromkeys(word for word in words if word in kinds()))


def limits_in(tree: ast.expr) -> tuple[str, ...]:
    """The names of the limits that `tree` reads, without `limits.`."""
    words = (dotted(node) for node in ast.walk(tree) if isinstance(node, ast.Attribute))
    return tuple(dict.fromkeys(word.removeprefix("limits.") for word in words if word.startswith("limits.")))


def shown(tree: ast.expr) -> str:
    """`tree` as text, cut where it is long."""
    text = ast.unparse(tree)
    return text if len(text) <= MAX_SHOWN else f"{text[:MAX_SHOWN]} ..."
