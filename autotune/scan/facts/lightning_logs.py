"""Values that a LightningModule logs in each step and reduces over all processes first."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from autotune.model.evidence import RUN, Fact
from autotune.pycode import values
from autotune.scan.script.analysis import ScriptAnalysis
from autotune.scan.script.training_loops import step_path
from autotune.syntax.python import last_name

LOGS = frozenset({"log", "log_dict"})

TRAINING_STEP = "training_step"


def facts(script: ScriptAnalysis) -> Iterator[Fact]:
    """Fact `code.num_synced_logs_in_step`, of the training_step of a LightningModule."""
    hooks = [one for one in script.steps if one.is_hook and getattr(one.node, "name", "") == TRAINING_STEP]
    if not hooks:
        return
    calls = [
        call for call in step_path(script.view, hooks) if last_name(call.func) in LOGS and _is_synced(script, call)
    ]
    if calls or script.is_whole:
        yield Fact("code.num_synced_logs_in_step", RUN, len(calls), tuple(map(script.view.place, calls)))


def _is_synced(script: ScriptAnalysis, call: ast.Call) -> bool:
    """Whether it reduces in the step itself: values that are logged at the end of an epoch alone are reduced there."""
    given = {one.arg: values.is_true(script.view.at(call), one.value) for one in call.keywords if one.arg}
    return given.get("sync_dist") is True and given.get("on_step") is not False
