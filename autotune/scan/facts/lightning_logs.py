"""Values that a LightningModule logs in each step and reduces over all processes first."""

from __future__ import annotations

import ast
from collections.abc import Collection, Iterator

from autotune.model.evidence import RUN, Fact
from autotune.pycode import values
from autotune.pycode.functions import called_function, passed_arguments
from autotune.scan.script.analysis import ScriptAnalysis
from autotune.scan.script.training_loops import step_path
from autotune.syntax.python import last_name

LOGS = frozenset({"log", "log_dict"})

TRAINING_STEP = "training_step"

MAX_NAMES = 4
"""Names that are followed one behind another to what a training step passes."""


def facts(script: ScriptAnalysis) -> Iterator[Fact]:
    """Fact `code.num_synced_logs_in_step`, of the training_step of a LightningModule."""
    hooks = [one for one in script.steps if one.is_hook and getattr(one.node, "name", "") == TRAINING_STEP]
    if not hooks:
        return
    path = step_path(script.view, hooks)
    calls = [call for call in path if last_name(call.func) in LOGS and _is_synced(script, call, path)]
    if calls or script.is_whole:
        yield Fact("code.num_synced_logs_in_step", RUN, len(calls), tuple(map(script.view.place, calls)))


def _is_synced(script: ScriptAnalysis, call: ast.Call, path: Collection[ast.Call]) -> bool:
    """Whether it certainly reduces in the step itself: values that are logged at the end of an epoch alone are reduced
    there, and in a training step on_step is True by default."""
    given = {one.arg: one.value for one in call.keywords}
    if "sync_dist" not in given or values.is_true(script.view.at(call), given["sync_dist"]) is not True:
        return False
    return _holds(script, given["on_step"], path) if "on_step" in given else None not in given


def _holds(script: ScriptAnalysis, node: ast.expr, path: Collection[ast.Call]) -> bool:
    """Whether a condition certainly holds in the training step, which may pass "train" to what validation uses too."""
    known = values.is_true(script.view.at(node), node)
    found = _in_step(script, node, path)
    if isinstance(found, ast.Compare) and isinstance(found.ops[0], ast.Eq | ast.NotEq) and len(found.ops) == 1:
        sides = [_in_step(script, one, path) for one in (found.left, found.comparators[0])]
        texts = [one.value for one in sides if isinstance(one, ast.Constant)]
        return len(texts) == 2 and (texts[0] == texts[1]) is isinstance(found.ops[0], ast.Eq)
    return bool(found.value) if isinstance(found, ast.Constant) else known is True


def _in_step(script: ScriptAnalysis, node: ast.expr, path: Collection[ast.Call]) -> ast.expr | None:
    """What a name stands for in the training step, through parameters that its only call there gives a value."""
    found: ast.expr | None = node
    for _ in range(MAX_NAMES):
        if not isinstance(found, ast.Name):
            return found
        bindings = script.view.at(found).index.lookup(found)
        bound = bindings[0] if len(bindings) == 1 else None
        if bound is None or bound.kind not in ("value", "parameter"):
            return found
        found = bound.value if bound.kind == "value" and not bound.path else _passed(script, found, path)
    return found


def _passed(script: ScriptAnalysis, name: ast.Name, path: Collection[ast.Call]) -> ast.expr | None:
    """What the one call of the function around `name` in the training step passes for its parameter."""
    index = script.view.at(name).index
    function = index.enclosing_function(name)
    if function is None:
        return None
    own = {one for one in path if called_function(script.view.at(one).index, one) is function}
    given = [one for one in passed_arguments(index, function, name.id) if one is not None]
    passed = [one for one in given if any(one in ast.walk(call) for call in own)]
    return passed[0] if len(passed) == len(own) == 1 else None
