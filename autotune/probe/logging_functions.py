"""Functions of the script that write into a file whenever they are called, read off their source."""

from __future__ import annotations

import ast
import functools
import linecache

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import CodeType

WRITES = frozenset(("write", "writelines", "writerow", "writerows", "write_text", "dump", "to_csv"))
PASSED_THROUGH = (ast.With, ast.AsyncWith, ast.Try)
"""Statements whose body always begins."""

CONDITIONAL = (
    getattr(ast, "Match", ast.If),
    ast.If,
    ast.For,
    ast.AsyncFor,
    ast.While,
    ast.FunctionDef,
    ast.AsyncFunctionDef,
    ast.ClassDef,
)


def always_writes(code: CodeType) -> bool:
    """Whether each call of a code object writes, outside of branches and loops. False where its source is not known."""
    if WRITES.isdisjoint(code.co_names):
        return False
    return _always_writes(code.co_filename, code.co_firstlineno, code.co_name)


@functools.lru_cache(maxsize=256)
def _always_writes(file: str, line: int, name: str) -> bool:
    try:
        tree = ast.parse("".join(linecache.getlines(file)))
    except (SyntaxError, ValueError, RecursionError):
        return False
    functions = (node for node in ast.walk(tree) if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)))
    found = (node for node in functions if node.name == name and _first_line(node) == line)
    return any(_writes(statement) for node in found for statement in _straight(node.body))


def _first_line(function: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    return min([function.lineno, *(decorator.lineno for decorator in function.decorator_list)])


def _straight(body: list[ast.stmt]) -> Iterator[ast.stmt]:
    """The statements that run whenever the body does."""
    for statement in body:
        if isinstance(statement, PASSED_THROUGH):
            yield from _straight(statement.body)
        elif not isinstance(statement, CONDITIONAL):
            yield statement


def _writes(statement: ast.stmt) -> bool:
    calls = (node.func for node in ast.walk(statement) if isinstance(node, ast.Call))
    return any(isinstance(called, ast.Attribute) and called.attr in WRITES for called in calls)
