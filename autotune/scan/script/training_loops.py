"""The training loops of a script, and its step path: what runs once per micro-batch."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Sequence

from msgspec import Struct

from autotune.catalogue import frameworks
from autotune.pycode.functions import called_function
from autotune.pycode.index import Function, base_name
from autotune.pycode.reachability import condition_holds
from autotune.pycode.script_view import ScriptView
from autotune.scan.script.optimizer_steps import (
    Loop,
    counts_up,
    loops_around,
    loops_without_backward,
    may_run,
    optimizer_steps,
    update_loops,
)
from autotune.scan.script.training_models import RANK
from autotune.syntax.python import last_name

BACKWARDS = ("backward", "manual_backward")

SKIPS = (ast.Continue, ast.Break, ast.Return)
"""Statements after which the rest of a block is not run."""

RARE = re.compile(r"(is_?|^|_)(nan|inf|finite)(?![a-z])", re.IGNORECASE)
"""What the name of a condition on bad numbers has."""

MAX_CALLS = 6
"""Functions of the script that are followed one inside another."""

MAX_BACKWARDS = 50
"""Backward passes of one script that are looked at; more is none that a person wrote."""


class TrainingStep(Struct, frozen=True, eq=False):
    """What trains on one micro-batch: the body of a loop around a backward, or a method that a framework calls.

    `around` are the loops outside of it, from the inside; `backward` is None where other code has it.
    """

    node: Loop | Function
    around: tuple[Loop, ...] = ()
    backward: ast.Call | None = None

    @property
    def is_hook(self) -> bool:
        return not isinstance(self.node, Loop)


def training_steps(view: ScriptView) -> tuple[TrainingStep, ...]:
    """Every training step of the script; a loop with several backwards is one.

    A loop with a backward in which no parameter changes measures something: it trains nothing.
    """
    found: dict[ast.AST, TrainingStep] = {}
    changing = update_loops(view)
    for call in backwards(view):
        loops = loops_around(view, call) if may_run(view, call) else []
        if not changing.isdisjoint(loops):
            found.setdefault(loops[0], TrainingStep(loops[0], tuple(loops[1:]), call))
    for loops in loops_without_backward(view):
        if not any(loops[0] in (step.node, *step.around) for step in found.values()):
            found[loops[0]] = TrainingStep(loops[0], tuple(loops[1:]))
    for function in view.index.functions:
        if _is_hook(view, function):
            found.setdefault(function, TrainingStep(function))
    return tuple(found.values())


def backwards(view: ScriptView) -> tuple[ast.Call, ...]:
    """Every backward pass."""
    calls = (call for name in BACKWARDS for call in view.index.called.get(name, ())[:MAX_BACKWARDS])
    return tuple(call for call in calls if _is_backward(view, call))


def step_path(view: ScriptView, found: Sequence[TrainingStep], *, always: bool = False) -> dict[ast.Call, None]:
    """Every call that runs with each micro-batch, or with each optimizer step around micro-batches.

    What only some steps skip (`if len(batch) < n: continue`) is among them, unless it is to run `always`.
    """
    path: dict[ast.Call, None] = {}
    for step in found:
        for one in (step.node, *accumulation_loops(view, step)):
            path.update(dict.fromkeys(_certain_calls(view, one.body, {step.node}, 0, always)))
    return path


def forward_call(view: ScriptView, step: TrainingStep) -> ast.Call | None:
    """The call of the model in a loop, the last one before its backward; None where the loop itself calls none."""
    if step.backward is None:
        return None
    calls = (call for name in ("parameters", "train") for call in view.index.called.get(name, ()))
    models = {base_name(call) for call in calls} - {""}
    before = [
        one
        for one in ast.walk(step.node)
        if isinstance(one, ast.Call) and last_name(one.func) in models and one.lineno <= step.backward.lineno
    ]
    return max(before, key=lambda one: (one.lineno, one.col_offset), default=None)


def accumulation_loops(view: ScriptView, step: TrainingStep) -> Iterator[Loop]:
    """The loop around `for micro_step in range(n)` that steps the optimizer once for all of them."""
    inner = step.node
    if not counts_up(inner) or not step.around:
        return
    for call in optimizer_steps(view):
        loops = loops_around(view, call)
        if loops and loops[0] is step.around[0]:
            yield step.around[0]
            return


def _is_hook(view: ScriptView, function: Function) -> bool:
    class_ = view.index.method_class(function)
    bases = [last_name(base) for base in class_.bases] if class_ is not None else []
    return any(base.endswith(frameworks.step_classes(function.name)) for base in bases)


def _is_backward(view: ScriptView, call: ast.Call) -> bool:
    """Not the backward of an autograd function that the script defines."""
    function = view.index.enclosing_function(call)
    return isinstance(call.func, ast.Attribute) and (function is None or function.name != "backward")


def _certain_calls(
    view: ScriptView, body: Sequence[ast.stmt], seen: set[ast.AST], depth: int, always: bool
) -> Iterator[ast.Call]:
    """The calls that a block certainly makes each time, those of the script's own functions included, once each."""
    waiting: list[ast.AST] = list(reversed(_certain_statements(view, body, always)))
    while waiting:
        node = waiting.pop()
        if isinstance(node, ast.Call):
            yield node
            function = called_function(view.index, node)
            if function is not None and function not in seen and depth < MAX_CALLS and not _evaluates(view, function):
                seen.add(function)
                yield from _certain_calls(view, function.body, seen, depth + 1, always)
        waiting.extend(reversed(_certain_children(view, node, always)))


def _evaluates(view: ScriptView, function: Function) -> bool:
    """Whether a function puts a model into evaluation mode."""
    return any(view.index.enclosing_function(call) is function for call in view.index.called.get("eval", ()))


def _certain_statements(view: ScriptView, body: Sequence[ast.stmt], always: bool) -> list[ast.stmt]:
    """The statements up to one that skips the rest of most steps; `always`: of steps that are not known."""
    place = next((place for place, statement in enumerate(body) if _skips(view, statement, always)), len(body))
    return list(body[: place + 1])


def _skips(view: ScriptView, statement: ast.stmt, always: bool) -> bool:
    """`if step % 100: continue`, or return; also in a `with` or within another condition.

    Always: `if time() - last < 600: continue` as well.
    """
    if isinstance(statement, ast.With | ast.AsyncWith):
        return any(_skips(view, one, always) for one in statement.body)
    if not isinstance(statement, ast.If):
        return False
    branches = [branch for branch in (statement.body, statement.orelse) if branch]
    if is_periodic(statement.test):
        return any(isinstance(branch[-1], SKIPS) for branch in branches)
    if always and _is_undecided(view, statement.test) and any(_leaves_step(view, branch[-1]) for branch in branches):
        return True
    return any(_skips(view, one, always) for branch in branches for one in branch)


def _is_undecided(view: ScriptView, test: ast.expr) -> bool:
    """Whether a condition may hold in most steps: not one on the process, on bad numbers, or on what is missing."""
    nodes = list(ast.walk(test))
    is_rare = any(RARE.search(last_name(one)) or RANK.search(last_name(one)) for one in nodes)
    is_missing = any(isinstance(one, ast.Constant) and one.value is None for one in nodes)
    return condition_holds(view, test) is None and not is_rare and not is_missing


def _leaves_step(view: ScriptView, statement: ast.stmt) -> bool:
    """`continue`, and a `return` outside of loops; a `break`, and a `return` in the loop, end the training."""
    is_inside = any(isinstance(one, Loop) for one in view.index.ancestors_in_function(statement))
    return isinstance(statement, ast.Continue) or (isinstance(statement, ast.Return) and not is_inside)


def is_periodic(test: ast.expr) -> bool:
    """Whether a condition holds every N steps."""
    return any(isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mod) for node in ast.walk(test))


def divisor(test: ast.expr) -> ast.expr | None:
    """N of `(i + 1) % N == 0`; of `... or i + 1 == len(loader)` as well."""
    for node in ast.walk(test):
        if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mod):
            return node.right
    return None


def _certain_children(view: ScriptView, node: ast.AST, always: bool) -> list[ast.AST]:
    """What certainly runs when `node` does, in its order."""
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef | ast.Lambda):
        return []
    if isinstance(node, ast.If):
        return [node.test, *(_certain_statements(view, node.body, always) if condition_holds(view, node.test) else [])]
    if isinstance(node, ast.IfExp):
        return [node.test]
    if isinstance(node, ast.BoolOp):
        return [node.values[0]]
    if isinstance(node, ast.Match):
        return [node.subject]
    if isinstance(node, ast.Try):
        return [*_certain_statements(view, node.body, always), *node.finalbody]
    if isinstance(node, ast.With | ast.AsyncWith):
        return [] if _is_evaluation(node) else [*node.items, *_certain_statements(view, node.body, always)]
    if isinstance(node, Loop):
        return (
            [node.test] if isinstance(node, ast.While) else [node.iter, *_certain_statements(view, node.body, always)]
        )
    if isinstance(node, ast.expr_context | ast.operator):
        return []
    return list(ast.iter_child_nodes(node))


def _is_evaluation(node: ast.With | ast.AsyncWith) -> bool:
    """`with torch.no_grad():` around a loop of its own."""
    names = {last_name(one.func if isinstance(one := item.context_expr, ast.Call) else one) for item in node.items}
    return bool(names & {"no_grad", "inference_mode"}) and any(isinstance(one, Loop) for one in ast.walk(node))
