"""The calls that step an optimizer or change parameters, and the loops around them."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from autotune.pycode.functions import called_function, with_callers
from autotune.pycode.index import Index, base_name
from autotune.pycode.reachability import is_else, is_reached
from autotune.pycode.script_view import ScriptView
from autotune.syntax.python import last_name

Loop = ast.For | ast.AsyncFor | ast.While

OPTIMIZER = re.compile(r"optim(?!al|um)|^opt(?!im(?:al|um))|scaler|engine|^[a-z]?opt[a-z]?$", re.IGNORECASE)
SCHEDULER = re.compile(r"sched|warmup", re.IGNORECASE)

OTHER_STEPS = re.compile(rf"{SCHEDULER.pattern}|prof|env|bar|ema|timer|writer", re.IGNORECASE)
"""What has a step() beside an optimizer; a model may have one, as DeepSpeed's."""

UPDATE = re.compile(r"^(optim\w*_step|step_\w*optim\w*|optimi[sz]e(_\w+)?|update_\w*(param|weight)\w*|apply_grad\w*)$")

KEEPS = re.compile(r"save|log|print|writ|dump|checkpoint|record|store", re.IGNORECASE)
"""How functions are called that take a loss or an optimizer only to keep what they hold."""

TRIAL = re.compile(r"profil|debug|dry_run|bench", re.IGNORECASE)

MAX_UPDATES = 50
"""Updates of one kind that are looked at in one script; more is none that a person wrote."""


def optimizer_steps(view: ScriptView) -> tuple[ast.Call, ...]:
    """Every call that steps an optimizer, or a GradScaler that steps one."""
    return tuple(call for call in view.index.called.get("step", ()) if OPTIMIZER.search(base_name(call)))


def scheduler_steps(view: ScriptView) -> tuple[ast.Call, ...]:
    """Every call that steps a learning-rate schedule."""
    return tuple(call for call in view.index.called.get("step", ()) if SCHEDULER.search(base_name(call)))


def update_loops(view: ScriptView) -> set[Loop]:
    """The loops in which parameters change: an optimizer steps, is handed on, or `p.data -= lr * p.grad`."""
    index = view.index
    stepped = [call for call in index.called.get("step", ()) if not OTHER_STEPS.search(base_name(call))]
    asked = [call for call in index.calls if UPDATE.search(last_name(call.func)) or _takes_optimizer(call)]
    by_hand = [one for one in index.attributes.get("grad", ()) if _is_in_arithmetic(index, one)]
    nodes: list[ast.AST] = [*stepped[:MAX_UPDATES], *asked[:MAX_UPDATES], *by_hand[:MAX_UPDATES]]
    return {loop for node in nodes for loop in loops_around(view, node)}


def loops_without_backward(view: ScriptView) -> Iterator[list[Loop]]:
    """The loops, from the inside, around an update whose backward other code has."""
    yield from _loops_delegating_updates(view)
    yield from _loops_clearing_gradients(view)


def loops_around(view: ScriptView, node: ast.AST) -> list[Loop]:
    """The loops around a node, then those around the calls of its function that may be run, from the inside."""
    found: list[Loop] = []
    for one in with_callers(view.index, node):
        loops = [outer for outer in view.index.ancestors_in_function(one) if isinstance(outer, Loop)]
        found += loops if loops and is_reached(view, one) is not False else ()
    return found


def counts_up(loop: ast.AST) -> bool:
    """`for ... in range(...)`."""
    return isinstance(loop, ast.For) and isinstance(loop.iter, ast.Call) and last_name(loop.iter.func) == "range"


def may_run(view: ScriptView, node: ast.AST) -> bool:
    """Whether the script may come to a node, and not only to measure something: below `if args.profile`."""
    if is_reached(view, node) is False:
        return False
    inner = node
    for outer in view.index.ancestors_in_function(node):
        names = map(last_name, ast.walk(outer.test)) if isinstance(outer, ast.If) and not is_else(outer, inner) else ()
        if any(map(TRIAL.search, names)):
            return False
        inner = outer
    return True


def _takes_optimizer(call: ast.Call) -> bool:
    """Whether an optimizer itself is passed, to something that does more than keep its state."""
    given = [*call.args, *(keyword.value for keyword in call.keywords)]
    return not KEEPS.search(last_name(call.func)) and any(OPTIMIZER.search(last_name(one)) for one in given)


def _is_in_arithmetic(index: Index, gradient: ast.AST) -> bool:
    """`p.grad` in `lr * p.grad.data`, or in `p.data.add_(p.grad, alpha=-lr)`."""
    outer = index.parents.get(gradient)
    while isinstance(outer, ast.Attribute):
        gradient, outer = outer, index.parents.get(outer)
    if isinstance(outer, ast.Call):
        return last_name(outer.func) in ("add_", "sub_") and gradient is not outer.func
    return isinstance(outer, ast.BinOp | ast.AugAssign)


def _loops_delegating_updates(view: ScriptView) -> Iterator[list[Loop]]:
    """The loops around `loss_scaler(loss, optimizer, ...)`, as timm has it: the backward and the step are in it."""
    for call in view.index.calls:
        is_scaler = last_name(call.func).lower().endswith("scaler")
        if not call.args or not _is_loss(call.args[0]) or not (is_scaler or _takes_optimizer(call)):
            continue
        loops = loops_around(view, call) if called_function(view.index, call) is None and may_run(view, call) else []
        if loops and isinstance(loops[0], ast.For) and not counts_up(loops[0]):
            yield loops


def _is_loss(node: ast.expr) -> bool:
    """`loss`, `self.loss`, `loss / n`."""
    node = node.left if isinstance(node, ast.BinOp) else node
    return "loss" in last_name(node).lower()


def _loops_clearing_gradients(view: ScriptView) -> Iterator[list[Loop]]:
    """The loops that clear the gradients of an optimizer and step it, around a backward that other code has."""
    clears = [call for call in view.index.called.get("zero_grad", ())[:MAX_UPDATES] if may_run(view, call)]
    cleared = {(loops[0], base_name(call)) for call in clears if (loops := loops_around(view, call))}
    for call in optimizer_steps(view)[:MAX_UPDATES]:
        loops = loops_around(view, call)
        if loops and (loops[0], base_name(call)) in cleared and may_run(view, call):
            yield loops
