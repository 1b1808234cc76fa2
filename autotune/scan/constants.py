"""Python files whose constants are settings: nanoGPT's configs, and its train.py with their defaults."""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Iterator

from msgspec.structs import replace

from autotune.model.evidence import RUN, Location
from autotune.model.scanned import ConsumerCall
from autotune.pycode.build_index import build
from autotune.pycode.script_view import ScriptView
from autotune.pycode.values import written_value
from autotune.pycode.work_budget import Work
from autotune.scan.configs import recognise
from autotune.scan.script.training_models import MODELS
from autotune.syntax.python import Source


def read_constants(source: Source, file: str, work: Work | None = None) -> ConsumerCall | None:
    """The constants as one ConsumerCall, None for any other file.

    A file of nothing but constants is a config. A script that runs such files over its own constants (exec) holds
    defaults, and leaves open what the files add.
    """
    runs_others = any(map(_is_exec, source.tree.body))
    if not runs_others and not all(isinstance(node, ast.Assign | ast.Import | ast.Expr) for node in source.tree.body):
        return None
    view = ScriptView(build(source.tree, work or Work()), source, file, {}, models=MODELS)
    counts = Counter(name for name, _ in _assignments(source.tree))
    found = {name: replace(written_value(view, node), key=name) for name, node in _assignments(source.tree)}
    arguments = {
        name: replace(one, known=one.known and counts[name] == 1, is_default=runs_others) for name, one in found.items()
    }
    dialect = recognise({name: one.value if one.known else None for name, one in arguments.items()}, "python")
    if dialect is None:
        return None
    return ConsumerCall(dialect, "", RUN, arguments, Location(file, 1), is_open=runs_others)


def _assignments(tree: ast.Module) -> Iterator[tuple[str, ast.expr]]:
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
