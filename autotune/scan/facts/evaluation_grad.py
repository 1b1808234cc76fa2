"""Evaluation loops that build the autograd graph: model.eval() alone switches no gradients off."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from autotune.model.evidence import Fact
from autotune.pycode.index import base_name
from autotune.pycode.reachability import is_reached
from autotune.scan.script.analysis import ScriptAnalysis

NO_GRAPH = ("no_grad", "inference_mode", "set_grad_enabled", "requires_grad_")


def facts(parts: ScriptAnalysis) -> Iterator[Fact]:
    """Fact `code.evaluates_with_grad`, of a script with a loop of its own that is all there."""
    index = parts.view.index
    if all(step.is_hook for step in parts.steps):
        return
    if any(index.attributes.get(name) or index.reads.get(name) for name in NO_GRAPH):
        yield from parts.stated("code.evaluates_with_grad", False)
        return
    loops = [loop for call in index.called.get("eval", ()) for loop in _loops(parts, call)]
    if parts.is_whole:
        yield from parts.stated("code.evaluates_with_grad", bool(loops), *loops)


def _loops(parts: ScriptAnalysis, call: ast.Call) -> Iterator[ast.For]:
    """The loops behind `model.eval()` in its function that call the model and train nothing."""
    index, model = parts.view.index, base_name(call)
    training = {node for step in parts.steps for node in (step.node, *step.around)}
    block = index.function(call) or index.tree
    for node in ast.walk(block):
        if not isinstance(node, ast.For) or node in training or node.lineno < call.lineno or not model:
            continue
        called = {one.func.id for one in ast.walk(node) if isinstance(one, ast.Call) and isinstance(one.func, ast.Name)}
        if model in called and is_reached(parts.view, node) is True:
            yield node
