"""Saves of a Trainer that one process alone comes to, where all of them have a part of the model."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from autotune.model.evidence import Fact
from autotune.pycode.functions import called_class, with_bases
from autotune.pycode.origins import origins
from autotune.pycode.reachability import is_else, is_reached
from autotune.scan.script.analysis import ScriptAnalysis
from autotune.syntax.python import last_name

OF_TRANSFORMERS = frozenset({"hf_trainer", "trl"})
"""Dialects of the Trainer and of those that extend it."""

FIRST = re.compile(r"^(is_(local_|world_)?(main_process|process_zero)|is_(main|master|rank_0|rank_zero)|should_save)$")
"""What is true in one process alone."""

RANK = re.compile(r"^((local_)?rank|(local_)?process_index|get_rank)$")
"""What is 0 in one process alone."""

SHARDED = re.compile(r"deepspeed|zero_?(\d|stage)|fsdp|stage", re.IGNORECASE)
"""What a condition has in it that knows of sharded models."""


def facts(script: ScriptAnalysis) -> Iterator[Fact]:
    """Fact `code.saves_on_one_process`, where a `save_model` of the Trainer of transformers certainly stands so."""
    index = script.view.index
    made = (one.consumer.dialect for one in script.consumer_calls if one.call.name.endswith("Trainer"))
    if not OF_TRANSFORMERS.intersection(made):
        return
    calls = [one for one in index.called.get("save_model", ()) if is_reached(script.view, one) is not False]
    found = [one for one in calls if _is_of_trainer(script, one) and _is_for_one(script, one)]
    if found:
        yield from script.state_fact("code.saves_on_one_process", True, *found)


def _is_of_trainer(script: ScriptAnalysis, call: ast.Call) -> bool:
    """Whether a Trainer of the script saves, and not in a way of its own."""
    if not isinstance(call.func, ast.Attribute) or "trainer" not in last_name(call.func.value).lower():
        return False
    index = script.view.index
    made = [one.node for one in origins(script.view, call.func.value) if isinstance(one.node, ast.Call)]
    classes = [class_ for node in made if (class_ := called_class(index, node.func)) is not None]
    methods = {
        one.name
        for each in classes
        for part in with_bases(index, each)
        for one in part.body
        if isinstance(one, ast.FunctionDef)
    }
    return "save_model" not in methods


def _is_for_one(script: ScriptAnalysis, call: ast.Call) -> bool:
    """Whether a condition around a call, in its function, holds in one process alone."""
    index = script.view.index
    inner: ast.AST = call
    for outer in index.ancestors_in_function(call):
        if isinstance(outer, ast.If) and not is_else(outer, inner) and _holds_in_one(outer.test):
            return True
        inner = outer
    return False


def _holds_in_one(test: ast.expr) -> bool:
    """`trainer.is_world_process_zero()`, `accelerator.is_main_process`, `rank == 0`, and what these are a part of by
    `and`; not where the condition knows of sharded models."""
    names = [last_name(one) for one in ast.walk(test) if isinstance(one, ast.Name | ast.Attribute)]
    if any(map(SHARDED.search, names)):
        return False
    if isinstance(test, ast.BoolOp):
        return isinstance(test.op, ast.And) and any(map(_holds_in_one, test.values))
    if isinstance(test, ast.Compare):
        is_equal = len(test.ops) == 1 and isinstance(test.ops[0], ast.Eq)
        return is_equal and _is_zero(test.comparators[0]) and RANK.match(_asked(test.left)) is not None
    return FIRST.match(_asked(test)) is not None


def _is_zero(node: ast.expr) -> bool:
    """Whether this is the number 0; False is none."""
    return isinstance(node, ast.Constant) and type(node.value) is int and node.value == 0


def _asked(node: ast.expr) -> str:
    """The name of what a condition asks; "" for anything but a name, an attribute or a call."""
    return last_name(node.func if isinstance(node, ast.Call) else node)
