"""The folders that a Python file adds to sys.path."""

from __future__ import annotations

import ast
import posixpath
from collections.abc import Iterator, Mapping

from msgspec import Struct

from autotune.scan.library import Library
from autotune.syntax.python import last_name

KEEPS_PATH = frozenset({"remove", "index", "count", "pop", "copy"})
"""Methods of sys.path that add nothing to it."""

SAME = frozenset({"abspath", "realpath", "normpath", "str", "Path", "PurePath", "resolve", "absolute", "as_posix"})
"""Functions and methods that give the path that they get."""

MAX_DEPTH = 12
"""Expressions in expressions, and names, that are followed to a folder."""


class PathScope(Struct, frozen=True):
    """What is known where a path is read: the file, and what its names are given once."""

    library: Library
    file: str
    given: Mapping[str, ast.expr]


def sys_path_folders(library: Library, file: str, tree: ast.Module) -> Iterator[str | None]:
    """The folders below the root ("." for itself); None for one that is not there, outside, or not known."""
    given: dict[str, ast.expr] = {}
    again: set[str] = set()
    for node in (one for one in ast.walk(tree) if isinstance(one, ast.Assign)):
        for target in (one for one in node.targets if isinstance(one, ast.Name)):
            again |= {target.id} & given.keys()
            given[target.id] = node.value
    scope = PathScope(library, file, {name: value for name, value in given.items() if name not in again})
    return (_path(scope, one, MAX_DEPTH) for one in _added(tree))


def _added(tree: ast.Module) -> Iterator[ast.expr]:
    """What is added to sys.path; `sys.path` itself where it is changed in another way."""
    nodes = list(ast.walk(tree))
    calls = {one.func.value: one for one in nodes if isinstance(one, ast.Call) and isinstance(one.func, ast.Attribute)}
    asked = {part for one in nodes if isinstance(one, ast.Compare) for part in one.comparators}
    for node in nodes:
        if not (isinstance(node, ast.Attribute) and node.attr == "path" and last_name(node.value) == "sys"):
            continue
        call = calls.get(node)
        method = last_name(call.func) if call is not None else ""
        if call is not None and method in ("append", "insert") and call.args:
            yield call.args[-1]
        elif method not in KEEPS_PATH and node not in asked:
            yield node


def _path(scope: PathScope, node: ast.expr, depth: int) -> str | None:
    """The path below the root that an expression gives."""
    if depth == 0:
        return None
    if isinstance(node, ast.Name):
        value = scope.given.get(node.id)
        return scope.file if node.id == "__file__" else _path(scope, value, depth - 1) if value is not None else None
    if isinstance(node, ast.Constant):
        own, path = posixpath.dirname(scope.file), node.value
        return (_below(scope, own, path) or _below(scope, "", path)) if isinstance(path, str) else None
    return _call(scope, node, depth) if isinstance(node, ast.Call) else _of_pathlib(scope, node, depth)


def _call(scope: PathScope, node: ast.Call, depth: int) -> str | None:
    """`os.path.dirname(path)`, `os.path.join(path, "..")`, `Path(path)`, `path.resolve()`, `os.getcwd()`."""
    name = last_name(node.func)
    if name in ("getcwd", "cwd"):
        return "."
    owner = node.func.value if isinstance(node.func, ast.Attribute) and not node.args else None
    first = owner if owner is not None else node.args[0] if node.args else None
    path = _path(scope, first, depth - 1) if first is not None else None
    if name == "dirname":
        return _above(path)
    if name in ("join", "joinpath"):
        parts = [one.value if isinstance(one, ast.Constant) else None for one in node.args[1:]]
        words = [one for one in parts if isinstance(one, str)]
        return _below(scope, path, "/".join(words)) if path is not None and words == parts else None
    return path if name in SAME else None


def _of_pathlib(scope: PathScope, node: ast.expr, depth: int) -> str | None:
    """`path.parent`, `path.parents[1]`, `path / "src"`."""
    if isinstance(node, ast.Attribute) and node.attr == "parent":
        return _above(_path(scope, node.value, depth - 1))
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Div) and isinstance(node.right, ast.Constant):
        path = _path(scope, node.left, depth - 1)
        return _below(scope, path, str(node.right.value)) if path is not None else None
    if not (isinstance(node, ast.Subscript) and isinstance(node.value, ast.Attribute) and node.value.attr == "parents"):
        return None
    number = node.slice.value if isinstance(node.slice, ast.Constant) else None
    if not isinstance(number, int) or number not in range(MAX_DEPTH):
        return None
    path = _path(scope, node.value.value, depth - 1)
    for _ in range(number + 1):
        path = _above(path)
    return path


def _above(path: str | None) -> str | None:
    """The folder that a path of the project lies in; None above the root."""
    return None if path is None or path == "." else posixpath.dirname(path) or "."


def _below(scope: PathScope, folder: str, path: str) -> str | None:
    """A folder of the project by its path from another one; None for one outside, and for one that is not there."""
    name = posixpath.normpath(posixpath.join(folder, path))
    is_inside = name != ".." and not name.startswith(("../", "/"))
    return name if is_inside and (name == "." or scope.library.has_folder(name)) else None
