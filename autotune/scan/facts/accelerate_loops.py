"""Loops around an Accelerator: who divides the loss, and whether anything accumulates."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from autotune.model.evidence import Fact
from autotune.pycode.index import base_name
from autotune.scan.script.analysis import ScriptAnalysis
from autotune.syntax.python import last_name

ACCUMULATION = re.compile(r"accum", re.IGNORECASE)

SHARED = ("accumulate", "no_sync", "sync_gradients")
"""What a loop that accumulates uses of an Accelerator."""

DIVIDES = ("gradient_accumulation_steps", "gradient_accumulation_plugin")
"""What tells an Accelerator to divide the loss."""


def facts(script: ScriptAnalysis) -> Iterator[Fact]:
    """Facts `code.lacks_accumulate` and `code.divides_loss_again`, of a loop around one Accelerator."""
    index = script.view.index
    made = [one.node for one in script.consumer_calls if one.consumer.name == "Accelerator"]
    backwards = [call for call in index.called.get("backward", ()) if "accelerator" in base_name(call).lower()]
    if len(made) != 1 or not backwards or all(step.is_hook for step in script.steps):
        return
    used = [one for name in SHARED for one in index.attributes.get(name, ())]
    yield from script.state_fact("code.lacks_accumulate", not used, *made)
    divided = [one for call in backwards for one in _divisions(script, call)] if _may_divide(*made) else []
    yield from script.state_fact("code.divides_loss_again", bool(divided), *divided)


def _may_divide(made: ast.Call) -> bool:
    """Whether an Accelerator is told to accumulate: else it divides by 1."""
    return any(keyword.arg is None or keyword.arg in DIVIDES for keyword in made.keywords)


def _divisions(script: ScriptAnalysis, backward: ast.Call) -> Iterator[ast.AST]:
    """`loss / args.gradient_accumulation_steps` in what a backward gets, or in what its name is given."""
    index = script.view.index
    for argument in backward.args[:1]:
        bound = [one.value for one in index.lookup(argument)] if isinstance(argument, ast.Name) else []
        for given in (argument, *bound):
            if isinstance(given, ast.BinOp) and _is_divided(given.op, given.right):
                yield given
        function = index.enclosing_function(backward)
        for node in ast.walk(function or index.tree):
            is_same = isinstance(node, ast.AugAssign) and last_name(node.target) == last_name(argument) != ""
            if is_same and isinstance(node, ast.AugAssign) and _is_divided(node.op, node.value):
                yield node


def _is_divided(operator: ast.operator, by: ast.expr) -> bool:
    return isinstance(operator, ast.Div) and bool(ACCUMULATION.search(last_name(by)))
