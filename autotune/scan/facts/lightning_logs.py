"""Values that a LightningModule logs in each step and reduces over all processes first."""

from __future__ import annotations

import ast
from collections.abc import Collection, Iterator, Mapping

from autotune.model.evidence import RUN, Fact
from autotune.pycode import values
from autotune.pycode.functions import called_function, passed_arguments
from autotune.pycode.names import full_name
from autotune.scan.script.analysis import ScriptAnalysis
from autotune.scan.script.training_loops import step_path
from autotune.syntax.python import last_name

VALUES = {"log": ("value", 1), "log_dict": ("dictionary", 0)}
"""Methods that log, and the argument that holds what they log: its keyword, and its place."""

CONTAINERS = frozenset(f"torch.nn.{name}" for name in ("ModuleDict", "ModuleList"))
"""What of torch may hold metrics."""

TRAINING_STEP = "training_step"

MAX_NAMES = 4
"""Names that are followed one behind another to what a training step passes."""


def facts(script: ScriptAnalysis) -> Iterator[Fact]:
    """Fact `code.num_synced_logs_in_step`, of the training_step of a LightningModule."""
    hooks = [one for one in script.steps if one.is_hook and getattr(one.node, "name", "") == TRAINING_STEP]
    if not hooks:
        return
    path = step_path(script.view, hooks)
    calls = [call for call in path if last_name(call.func) in VALUES and _is_synced(script, call, path)]
    if calls or script.is_whole:
        yield Fact("code.num_synced_logs_in_step", RUN, len(calls), tuple(map(script.view.place, calls)))


def _is_synced(script: ScriptAnalysis, call: ast.Call, path: Collection[ast.Call]) -> bool:
    """Whether it certainly reduces in the step itself: values that are logged at the end of an epoch alone are reduced
    there, and in a training step on_step is True by default."""
    given = {one.arg: one.value for one in call.keywords}
    if _logs_metrics(script, call, given, path):
        return False
    if "sync_dist" not in given or values.is_true(script.view.at(call), given["sync_dist"]) is not True:
        return False
    return _holds(script, given["on_step"], path) if "on_step" in given else None not in given


def _logs_metrics(
    script: ScriptAnalysis, call: ast.Call, given: Mapping[str | None, ast.expr], path: Collection[ast.Call]
) -> bool:
    """Whether all that a call logs may be metrics of torchmetrics, as objects: these reduce themselves when the epoch
    ends, and sync_dist is ignored for them."""
    keyword, place = VALUES[last_name(call.func)]
    value = given.get(keyword, call.args[place] if len(call.args) > place else None)
    found = _in_step(script, value, path) if value is not None else None
    if isinstance(found, ast.Dict):
        return bool(found.values) and all(_may_be_metric(script, one, path) for one in found.values)
    if isinstance(found, ast.DictComp):
        return _may_be_metric(script, found.value, path)
    return found is not None and _may_be_metric(script, found, path)


def _may_be_metric(script: ScriptAnalysis, node: ast.expr, path: Collection[ast.Call]) -> bool:
    """Whether a value is kept by the module, as an object that may be a metric: `self.train_loss`,
    `self.scores["top1"]`, `getattr(self, name)`. What calling such an object returns is a tensor."""
    found = _in_step(script, node, path)
    if isinstance(found, ast.Call) and last_name(found.func) == "getattr" and found.args:
        return _is_self(found.args[0])
    kept = found
    while isinstance(kept, ast.Subscript):
        kept = kept.value
    root = kept
    while isinstance(root, ast.Attribute | ast.Subscript):
        root = root.value
    if not isinstance(kept, ast.Attribute) or not _is_self(root):
        return False
    indexes = [one.index for one in script.view.views.values()] or [script.view.index]
    stored = [one for index in indexes for one in index.stores.get(kept.attr, ()) if _is_self(one.base)]
    return not stored or any(one.value is None or _may_make_metric(script, one.value) for one in stored)


def _may_make_metric(script: ScriptAnalysis, node: ast.expr) -> bool:
    """Whether a value that an attribute is given may be a metric: not a number, what is worked out, and what torch
    makes."""
    if isinstance(node, ast.Constant | ast.BinOp | ast.UnaryOp | ast.Compare):
        return False
    made = full_name(script.view.at(node).index, node.func) if isinstance(node, ast.Call) else None
    return made is None or made in CONTAINERS or made.partition(".")[0] != "torch"


def _is_self(node: ast.expr | None) -> bool:
    return isinstance(node, ast.Name) and node.id == "self"


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
