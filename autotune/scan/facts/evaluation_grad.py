"""Evaluation loops that build the autograd graph: model.eval() alone switches no gradients off."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from autotune.model.evidence import Fact
from autotune.pycode.index import base_name
from autotune.pycode.reachability import is_reached
from autotune.scan.script.analysis import ScriptAnalysis

NO_GRAPH = ("no_grad", "inference_mode", "set_grad_enabled", "requires_grad_")


def facts(script: ScriptAnalysis) -> Iterator[Fact]:
    """Fact `code.evaluates_with_grad`, of a script with a loop of its own that is all there."""
    index = script.view.index
    if all(step.is_hook for step in script.steps):
        return
    if any(index.attributes.get(name) or index.reads.get(name) for name in NO_GRAPH):
        yield from script.state_fact("code.evaluates_with_grad", False)
        return
    loops = [loop for call in index.called.get("eval", ()) for loop in _evaluation_loops(script, call)]
    if script.is_whole:
        yield from script.state_fact("code.evaluates_with_grad", bool(loops), *loops)


def _evaluation_loops(script: ScriptAnalysis, call: ast.Call) -> Iterator[ast.For]:
    """The loops behind `model.eval()` in its function that call the model and train nothing."""
    index, model = script.view.index, base_name(call)
    training = {node for step in script.steps for node in (step.node, *step.around)}
    block = index.enclosing_function(call) or index.tree
    for node in ast.walk(block):
        if not isinstance(node, ast.For) or node in training or node.lineno < call.lineno or not model:
            continue
        called = {one.func.id for one in ast.walk(node) if isinstance(one, ast.Call) and isinstance(one.func, ast.Name)}
        if model in called and is_reached(script.view, node) is True:
            yield node
