"""Python files whose constants are settings: nanoGPT's configs, and its train.py with their defaults."""

from __future__ import annotations

import ast
import operator
from collections import Counter
from collections.abc import Callable, Iterator, Mapping

from autotune.model.evidence import RUN, Location, Value
from autotune.model.scanned import Call, Given
from autotune.scan.configs import recognise
from autotune.syntax.python import Source

OPERATORS: Mapping[type[ast.operator], Callable[[int, int], int]] = {
    ast.Mult: operator.mul,
    ast.Add: operator.add,
    ast.Sub: operator.sub,
}
"""What may stand between two integers: 5 * 8."""

LARGEST = 1 << 62
"""No setting is larger: a product beyond it is not worked out."""


def read_constants(source: Source, file: str) -> Call | None:
    """The constants as one Call, None for any other file.

    A file of nothing but constants is a config. A script that runs such files over its own constants (exec) holds
    defaults, and leaves open what the files add.
    """
    runs_others = any(map(_is_exec, source.tree.body))
    if not runs_others and not all(isinstance(node, ast.Assign | ast.Import | ast.Expr) for node in source.tree.body):
        return None
    assigned = dict(_assigned(source.tree))
    counts = Counter(name for name, _ in _assigned(source.tree))
    values = {name: _value(node) if counts[name] == 1 else None for name, node in assigned.items()}
    dialect = recognise(values, "python")
    if dialect is None:
        return None
    arguments = {
        name: Given(name, values[name], _location(name, node, source, file), values[name] is not None, runs_others)
        for name, node in assigned.items()
    }
    return Call(dialect, "", RUN, arguments, Location(file, 1), is_open=runs_others)


def _assigned(tree: ast.Module) -> Iterator[tuple[str, ast.expr]]:
    for node in tree.body:
        if isinstance(node, ast.Assign) and len(node.targets) == 1 and isinstance(node.targets[0], ast.Name):
            yield node.targets[0].id, node.value


def _is_exec(node: ast.stmt) -> bool:
    return (
        isinstance(node, ast.Expr)
        and isinstance(node.value, ast.Call)
        and isinstance(node.value.func, ast.Name)
        and node.value.func.id == "exec"
    )


def _value(node: ast.expr) -> Value | None:
    """A literal, or integers with an operator between them; None for anything else."""
    if isinstance(node, ast.Constant):
        return node.value if isinstance(node.value, bool | int | float | str) else None
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        value = _value(node.operand)
        return -value if isinstance(value, int | float) else None
    if isinstance(node, ast.BinOp) and type(node.op) in OPERATORS:
        left, right = _value(node.left), _value(node.right)
        if isinstance(left, int) and isinstance(right, int) and abs(left) < LARGEST and abs(right) < LARGEST:
            return OPERATORS[type(node.op)](left, right)
    return None


def _location(name: str, node: ast.expr, source: Source, file: str) -> Location:
    return Location(file, node.lineno, column=source.column(node), key=name, span=source.span(node))
