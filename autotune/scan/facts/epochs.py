"""How many epochs a script's own loop trains: `for epoch in range(args.epochs)` around its loop over the loader."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from autotune.model.evidence import Fact
from autotune.pycode import values
from autotune.pycode.script_view import ScriptView
from autotune.scan.script.analysis import ScriptAnalysis
from autotune.scan.script.optimizer_steps import counts_up
from autotune.scan.script.training_loops import TrainingStep

MOST_ARGUMENTS = 2
"""Of range(): a step is no way to count epochs."""


def facts(script: ScriptAnalysis) -> Iterator[Fact]:
    """Fact `code.num_epochs`, where one loop counts to a number that is certain and nothing leaves it early."""
    if not script.is_own_loop or len(script.steps) != 1 or len(script.steps[0].around) != 1:
        return
    step, epochs = script.steps[0], script.steps[0].around[0]
    if (
        isinstance(step.node, ast.For)
        and not counts_up(step.node)
        and counts_up(epochs)
        and not _may_end_early(step, epochs)
    ):
        assert isinstance(epochs, ast.For)
        assert isinstance(epochs.iter, ast.Call)
        yield from script.state_fact("code.num_epochs", _num_epochs(script.view, epochs.iter), epochs)


def _num_epochs(view: ScriptView, called: ast.Call) -> int | None:
    """What range(...) counts; None where a bound of it is not certain."""
    bounds = [values.written_value(view, each) for each in called.args[:MOST_ARGUMENTS]]
    numbers = [each.value for each in bounds if values.is_certain(view, each)]
    known = [each for each in numbers if isinstance(each, int) and not isinstance(each, bool)]
    if len(known) != len(called.args) or not known or called.keywords:
        return None
    return max(0, known[-1] - (known[0] if len(known) > 1 else 0)) or None


def _may_end_early(step: TrainingStep, epochs: ast.AST) -> bool:
    """Whether a break, return or exit in one of the two loops may end training before its last epoch is over."""
    return any(_leaves(node) for loop in (step.node, epochs) for node in ast.walk(loop))


def _leaves(node: ast.AST) -> bool:
    if isinstance(node, ast.Call):
        name = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
        return name in ("exit", "_exit")
    return isinstance(node, ast.Break | ast.Return)
