"""Losses that a training step keeps with their graph: total_loss += loss, losses.append(loss)."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from autotune.model.evidence import Fact
from autotune.pycode.index import base_name
from autotune.scan.script.analysis import ScriptAnalysis
from autotune.scan.script.training_loops import TrainingStep
from autotune.syntax.python import last_name

NO_GRAPH = frozenset({"no_grad", "inference_mode"})

CUTS = frozenset({"item", "detach", "cpu", "tolist", "float"})
"""What returns a value without its graph."""


def facts(script: ScriptAnalysis) -> Iterator[Fact]:
    """Fact `code.num_kept_losses_in_step`."""
    found = [node for step in script.steps for node in _retentions(script, step)]
    if script.steps:
        yield from script.state_fact(
            "code.num_kept_losses_in_step", len(found) or (0 if script.is_whole else None), *found
        )


def _retentions(script: ScriptAnalysis, step: TrainingStep) -> Iterator[ast.AST]:
    """Where the loss of a step, as its backward had it, is added to a number or put into a list."""
    loss = _loss_name(step.backward) if step.backward is not None else ""
    for node in ast.walk(step.node) if loss else ():
        kept, into = _value_and_container(node)
        if not isinstance(kept, ast.Name) or kept.id != loss or not isinstance(into, ast.Name):
            continue
        if isinstance(node, ast.Call) and not _is_list(script, into):
            continue
        if not _is_cut(script, kept) and not _is_without_graph(script, node) and _outlives(script, step, into):
            yield node


def _loss_name(backward: ast.Call) -> str:
    """The name in loss.backward(), scaler.scale(loss).backward() and accelerator.backward(loss)."""
    scaled = backward.func.value if isinstance(backward.func, ast.Attribute) else None
    given = [*backward.args[:1], *(scaled.args[:1] if isinstance(scaled, ast.Call) else ())]
    return last_name(given[0]) if given else base_name(backward)


def _value_and_container(node: ast.AST) -> tuple[ast.expr | None, ast.expr | None]:
    """What is kept, and in what, of `into += kept` and `into.append(kept)`."""
    if isinstance(node, ast.AugAssign) and isinstance(node.op, ast.Add):
        return node.value, node.target
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "append" and node.args:
        return node.args[0], node.func.value
    return None, None


def _is_list(script: ScriptAnalysis, into: ast.Name) -> bool:
    """Whether a name is given a list: what another class's append() keeps is not known."""
    made = [binding.value for binding in script.view.index.lookup(into) if binding.value is not None]
    return any(isinstance(one, ast.List | ast.ListComp) or _is_call_of(one, "list", "deque") for one in made)


def _is_call_of(node: ast.expr, *names: str) -> bool:
    return isinstance(node, ast.Call) and last_name(node.func) in names


def _is_cut(script: ScriptAnalysis, loss: ast.Name) -> bool:
    """Whether the name is also given the loss without its graph."""
    made = [binding.value for binding in script.view.index.lookup(loss) if binding.value is not None]
    return any(isinstance(one, ast.Call) and last_name(one.func) in CUTS for value in made for one in ast.walk(value))


def _outlives(script: ScriptAnalysis, step: TrainingStep, into: ast.Name) -> bool:
    """Whether what it is kept in is set outside of the step, and is no loss itself."""
    index = script.view.index
    bound = [one.node for one in index.lookup(into) if not isinstance(one.node, ast.AugAssign)]
    inside = set(ast.walk(step.node))
    is_loss = any(base_name(call) == into.id for call in index.called.get("backward", ()))
    return bool(bound) and not is_loss and not any(one in inside for one in bound)


def _is_without_graph(script: ScriptAnalysis, node: ast.AST) -> bool:
    """Whether `with torch.no_grad():` stands around it."""
    blocks = [one for one in script.view.index.ancestors_in_function(node) if isinstance(one, ast.With)]
    names = {last_name(getattr(item.context_expr, "func", item.context_expr)) for one in blocks for item in one.items}
    return bool(names & NO_GRAPH)
