"""What a loop takes its batches from: the loader behind enumerate(tqdm(loader)), an iterator or a dict of loaders."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator

from autotune.pycode.functions import called_function
from autotune.pycode.origins import origins
from autotune.pycode.script_view import ScriptView, ValueOrigin

MAX_WRAPPERS = 6
"""Calls around a loader, such as enumerate(tqdm(loader))."""


def sources(view: ScriptView, node: ast.AST) -> Iterator[ast.AST]:
    """All that an expression iterates over may come from, looking through what wraps it."""
    waiting = [(node, 0)]
    seen = {node}
    while waiting:
        one, depth = waiting.pop()
        for origin in origins(view, one):
            yield origin.node
            inner = [part for part in _wrapped(view, origin) if part not in seen] if depth < MAX_WRAPPERS else []
            seen.update(inner)
            waiting += [(part, depth + 1) for part in inner]


def made_by(view: ScriptView, node: ast.AST) -> Iterator[ast.Call]:
    """The calls among them."""
    return (one for one in sources(view, node) if isinstance(one, ast.Call))


def _wrapped(view: ScriptView, origin: ValueOrigin) -> Iterable[ast.AST]:
    """What may be the loader inside of an expression: arguments of a wrapper, values of a dict."""
    node = origin.node
    if isinstance(node, ast.Call):
        return [] if origin.path or called_function(view.index, node) else node.args
    if isinstance(node, ast.Dict | ast.DictComp | ast.Tuple | ast.List):
        return ast.iter_child_nodes(node)
    return [node.value] if isinstance(node, ast.Subscript) else []
