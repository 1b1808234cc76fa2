"""Adds a statement to a Python file, below its imports: torch.set_num_threads(4). The file is parsed, never run.

A file without the import that the statement needs gets it, too: what its own modules import is not there by name.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from itertools import dropwhile, takewhile

from msgspec import Struct

from autotune.errors import UsageError
from autotune.model.source import Scalar, Splice
from autotune.syntax.edit_python import literal, sample
from autotune.syntax.edit_style import line_break, line_end
from autotune.syntax.python import Source

_SCOPES = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Lambda)
_OWN_NAMES = (*_SCOPES, ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)


class InsertionPoint(Struct, frozen=True):
    """Where a file gets its statement: behind the place `end` of its text, and the `number` first statements.

    `module` is the file's own name for the module that is called; `line` the one that the statement will stand at.
    `needs_import` says that the file imports the module nowhere, `is_below_others` that statements of the same kind
    stand there, which no blank line sets off from it.
    """

    end: int
    number: int
    module: str
    line: int
    needs_import: bool
    is_below_others: bool


def insertion_point(source: Source, module: str, beside: Sequence[str] = ()) -> InsertionPoint:
    """Behind the imports that follow `import <module>` one upon another, and whatever shares the line of the last; in a
    file that imports the module nowhere behind its first imports. Calls of the functions `beside` that follow stay
    above.

    Raises UsageError where only a block or a function imports the module, its name means something else too, or the
    file imports nothing.
    """
    body = source.tree.body
    own = next((number for number, node in enumerate(body) if _name(node, module)), None)
    if own is None:
        _check_nowhere(source, module)
    first = own if own is not None else next((number for number, node in enumerate(body) if _is_import(node)), None)
    if first is None:
        raise UsageError(f"{source.text.where} imports nothing")
    if own is None and any(map(_is_import, dropwhile(_is_import, body[first:]))):
        # What stands between imports may have to come before torch: an environment variable, a folder of sys.path.
        raise UsageError(f"{source.text.where} does not import {module}, and has statements between its imports")
    name = _name(body[first], module) or module
    other = next((node for node in _outer_nodes(source.tree) if _is_other(node, name, module)), None)
    if other is not None:
        line = getattr(other, "lineno", body[first].lineno)
        raise UsageError(f"{source.text.where}:{line} makes {name} something else than {module}")
    number = first + len(list(takewhile(_is_import, body[first:])))
    while number < len(body) and body[number].lineno == body[number - 1].end_lineno:
        number += 1
    functions = {f"{name}.{one.removeprefix(f'{module}.')}" for one in beside}
    others = list(takewhile(lambda node: _called(node) in functions, body[number:]))
    number += len(others)
    last = body[number - 1].end_lineno or body[number - 1].lineno
    line = last + (1 if others else 2 if own is not None else 3)
    end = line_end(source.text.text, source.text.lines[last - 1])
    return InsertionPoint(end, number, name, line, own is None, bool(others))


def inserted(source: Source, function: str, value: Scalar, beside: Sequence[str] = ()) -> Splice:
    """The edit that adds a call of `function` ("torch.set_num_threads") with `value`, set off by blank lines.

    Calls of the functions `beside` that stand there form one paragraph with it. Raises UsageError where there is no
    place for it, or Python would read something else.
    """
    module, _, rest = function.partition(".")
    at, text = insertion_point(source, module, beside), source.text.text
    statement = f"{at.module}.{rest}({literal(value, sample(source))})"
    newline = line_break(text, at.end)
    next_line = text[at.end :].removeprefix(newline).partition("\n")[0]
    added = [f"import {module}"] if at.needs_import else []
    behind = newline if next_line.strip() and not at.is_below_others else ""
    blank = "" if at.is_below_others else newline
    written = "".join([*(f"{newline}{one}" for one in added), newline, blank, statement, behind])
    _confirm(source, f"{text[: at.end]}{written}{text[at.end :]}", at, [*added, statement])
    return Splice(source.text.span(at.end, at.end), written)


def call_of(node: ast.AST) -> ast.Call | None:
    """The call that a statement is made of; None for any other statement."""
    return node.value if isinstance(node, ast.Expr) and isinstance(node.value, ast.Call) else None


def _called(node: ast.stmt) -> str:
    """What the call is named that a statement is made of; "" for any other statement."""
    call = call_of(node)
    return ast.unparse(call.func) if call is not None else ""


def _name(node: ast.stmt, module: str) -> str:
    """The name by which a statement imports the module: "torch" of `import torch.nn`, "t" of `import torch as t`."""
    names = node.names if isinstance(node, ast.Import) else []
    bound = (one.asname if one.asname else module for one in names if _is_of(one, module))
    return next(bound, "")


def _is_of(alias: ast.alias, module: str) -> bool:
    return alias.name == module or (not alias.asname and alias.name.startswith(f"{module}."))


def _is_import(node: ast.stmt) -> bool:
    return isinstance(node, ast.Import | ast.ImportFrom)


def _is_other(node: ast.AST, name: str, module: str) -> bool:
    """Whether a node gives the name to something else than the module."""
    if isinstance(node, ast.Import):
        return any((one.asname or one.name.partition(".")[0]) == name and not _is_of(one, module) for one in node.names)
    if isinstance(node, ast.ImportFrom):
        return any((one.asname or one.name) == name for one in node.names)
    if isinstance(node, ast.Name):
        return node.id == name and not isinstance(node.ctx, ast.Load)
    # A function, a class, what an except clause caught; the names of an import are seen with it.
    return not isinstance(node, ast.alias) and getattr(node, "name", "") == name


def _outer_nodes(tree: ast.Module) -> Iterator[ast.AST]:
    """Every node whose names are those of the module."""
    left: list[ast.AST] = [tree]
    while left:
        node = left.pop()
        yield node
        left += [] if isinstance(node, _OWN_NAMES) else ast.iter_child_nodes(node)


def _check_nowhere(source: Source, module: str) -> None:
    """Raises UsageError where a block or a function imports the module: above it may be too early, or for nothing."""
    inner = [node for node in ast.walk(source.tree) if isinstance(node, ast.stmt) and _name(node, module)]
    if inner:
        line = min(node.lineno for node in inner)
        raise UsageError(f"{source.text.where}:{line} imports {module} only in a block or a function")


def _confirm(source: Source, after: str, at: InsertionPoint, statements: Sequence[str]) -> None:
    """Raises UsageError unless the statements are all that Python reads in addition, the last where it should be."""
    try:
        tree, wanted = ast.parse(after), ast.parse("\n".join(statements))
    except SyntaxError as error:
        raise UsageError(f"this file cannot be edited here: {error.msg}", where=source.text.where) from error
    end = at.number + len(statements)
    added, tree.body[at.number : end] = tree.body[at.number : end], []
    is_so = [*map(ast.dump, added)] == [*map(ast.dump, wanted.body)] and added[-1].lineno == at.line
    if not is_so or ast.dump(tree) != ast.dump(source.tree):
        raise UsageError(f"{statements[-1]} cannot be added here", where=source.text.where)
