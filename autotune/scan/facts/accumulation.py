"""Loops that step the optimizer every N micro-batches, and what they get wrong."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Sequence

from msgspec import Struct

from autotune.model.evidence import Fact
from autotune.pycode import values
from autotune.pycode.functions import with_callers
from autotune.pycode.names import full_name
from autotune.pycode.origins import origins
from autotune.scan.script.analysis import ScriptAnalysis
from autotune.scan.script.optimizer_steps import optimizer_steps, scheduler_steps
from autotune.scan.script.training_loops import TrainingStep, accumulation_loops, backwards, divisor
from autotune.syntax.python import last_name

NOT_DIVIDED = "the loss is not divided"
SCHEDULED = "the scheduler steps every micro-batch"

UPDATES = re.compile(r"updates|update_steps|optimi[sz](er|ation)_steps")
"""How a number of optimizer steps is called."""

ROUNDS = frozenset({"ceil", "floor", "int", "max", "min", "round"})

SYNCS = ("no_sync", "accumulate", "set_requires_gradient_sync")
"""Methods that leave out the exchange of gradients; the attribute require_backward_grad_sync does so too."""


class Accumulation(Struct, frozen=True, eq=False):
    """A training step and the N after which its optimizer steps; without N it steps every time."""

    step: TrainingStep
    every: ast.expr | None
    at: ast.Call


def facts(script: ScriptAnalysis) -> Iterator[Fact]:
    """Facts `code.accumulates`, `code.has_no_sync` and `code.accumulation_mistake`."""
    training = _around_backwards(script)
    found = [one for step in script.steps if (one := _accumulation(script, step, training)) is not None]
    counted = [(one, _accumulates(script, one)) for one in found]
    active = [one for one, accumulates in counted if accumulates]
    if active:
        yield from script.state_fact("code.accumulates", True, *(one.at for one in active))
    elif counted and all(accumulates is False for _, accumulates in counted):
        yield from script.state_fact("code.accumulates", False, *(one.at for one, _ in counted), is_certain=True)
    yield from _no_sync_facts(script)
    for one in active:
        mistakes = list(_mistakes(script, one))
        if mistakes:
            yield from script.state_fact(
                "code.accumulation_mistake", "; ".join(text for text, _ in mistakes), *(at for _, at in mistakes)
            )
            return


def _accumulation(script: ScriptAnalysis, step: TrainingStep, training: set[ast.AST]) -> Accumulation | None:
    """What steps the optimizer after the micro-batches of `step`; `training` are the nodes around backwards."""
    view = script.view
    outer = next(accumulation_loops(view, step), None)
    for call in optimizer_steps(view):
        around = list(view.index.ancestors_in_function(call))
        if (
            outer is not None
            and outer in around
            and isinstance(step.node, ast.For)
            and isinstance(step.node.iter, ast.Call)
        ):
            return Accumulation(step, step.node.iter.args[-1], call) if len(step.node.iter.args) == 1 else None
        if step.node not in around:
            continue
        conditions = [one for one in around[: around.index(step.node)] if isinstance(one, ast.If)]
        if not training.isdisjoint(conditions):
            continue
        every = next((found for one in conditions if (found := divisor(one.test)) is not None), None)
        if every is not None or (not conditions and call in script.step_path):
            return Accumulation(step, every, call)
    return None


def _around_backwards(script: ScriptAnalysis) -> set[ast.AST]:
    """What stands around a backward: `if i % n_critic == 0` that trains a GAN's generator accumulates nothing."""
    index = script.view.index
    uses = (one for call in backwards(script.view) for one in with_callers(index, call))
    return {outer for one in uses for outer in index.ancestors_in_function(one)}


def _accumulates(script: ScriptAnalysis, one: Accumulation) -> bool | None:
    """Whether N is more than 1, as far as the script says; not known where 1 is one of several, or a default."""
    if one.every is None:
        return None if script.view.index.called.get("accumulate") else False
    found = [values.value_of_origin(script.view, origin, one.every) for origin in origins(script.view, one.every)]
    known = [given.value for given in found if given.known]
    if 1 not in known:
        return True if known else None
    return False if len(found) == 1 and values.is_certain(script.view, found[0]) else None


def _no_sync_facts(script: ScriptAnalysis) -> Iterator[Fact]:
    index = script.view.index
    calls: list[ast.AST] = [call for name in SYNCS for call in index.called.get(name, ())]
    calls += [store.node for store in index.stores.get("require_backward_grad_sync", ())]
    if calls or script.is_own_loop:
        yield from script.state_fact("code.has_no_sync", bool(calls), *calls)


def _mistakes(script: ScriptAnalysis, one: Accumulation) -> Iterator[tuple[str, ast.AST]]:
    backward = one.step.backward
    if backward is None or not script.is_raw or one.every is None:
        return
    if _is_undivided(script, backward, one.every):
        yield NOT_DIVIDED, backward
    for call in scheduler_steps(script.view):
        is_direct = call in script.step_path and one.step.node in script.view.index.ancestors_in_function(call)
        is_in_step = is_direct and one.step.node in script.view.index.ancestors_in_function(one.at)
        if is_in_step and _counts_updates(script, call, one.every):
            yield SCHEDULED, call


def _counts_updates(script: ScriptAnalysis, stepped: ast.Call, every: ast.expr) -> bool:
    """Whether a schedule is made for as many steps as the optimizer's: one may be made for micro-batches as well."""
    scheduler = stepped.func.value if isinstance(stepped.func, ast.Attribute) else stepped
    made = [origin.node for origin in origins(script.view, scheduler)]
    given = [one for node in made if isinstance(node, ast.Call) for one in (*node.args, *node.keywords)]
    return _is_of_updates(script, given, _operand_name(every))


def _is_of_updates(script: ScriptAnalysis, given: Sequence[ast.AST], every: object) -> bool:
    """Whether one of these expressions, followed through names, is divided by N or named after updates."""
    waiting, seen = list(given), set(given)
    for node in waiting:
        for one in ast.walk(node):
            if _divides_by(one, every) or UPDATES.search(last_name(one)):
                return True
            followed = origins(script.view, one) if isinstance(one, ast.Name | ast.Attribute) else ()
            new = [each.node for each in followed if _is_number(each.node) and each.node not in seen]
            waiting += new
            seen.update(new)
    return False


def _divides_by(node: ast.AST, every: object) -> bool:
    if not isinstance(node, ast.BinOp) or not isinstance(node.op, ast.Div | ast.FloorDiv):
        return False
    return bool(every) and _operand_name(node.right) == every


def _is_number(node: ast.AST) -> bool:
    """Whether an expression works out a number: it is made of no object, such as the optimizer and its rate."""
    return isinstance(node, ast.expr) and (not isinstance(node, ast.Call) or last_name(node.func) in ROUNDS)


def _is_undivided(script: ScriptAnalysis, backward: ast.Call, every: ast.expr) -> bool:
    """Whether the loss is a mean over the micro-batch, as a loss of torch gives it, and nothing divides it by N."""
    index = script.view.index
    uses_sums = any(one.value in ("sum", "none") for one in index.strings)
    if uses_sums or index.attributes.get("grad") or _is_factor(script, every):
        return False
    loss = backward.func.value if isinstance(backward.func, ast.Attribute) else None
    if isinstance(loss, ast.Call) and last_name(loss.func) == "scale" and loss.args:
        loss = loss.args[0]
    if not isinstance(loss, ast.Name):
        return False
    bindings = index.lookup(loss)
    return bool(bindings) and all(one.kind == "value" and _is_mean(script, one.value) for one in bindings)


def _is_factor(script: ScriptAnalysis, every: ast.expr) -> bool:
    """Whether the script divides or multiplies by N, or by what N is called, anywhere."""
    for node in script.view.index.descendants(script.view.index.tree):
        if isinstance(node, ast.BinOp | ast.AugAssign) and isinstance(node.op, ast.Div | ast.Mult):
            operands = [node.left, node.right] if isinstance(node, ast.BinOp) else [node.value]
            if any(_operand_name(one) == _operand_name(every) for one in operands):
                return True
    return False


def _operand_name(node: ast.expr) -> object:
    """What an operand is called, or its value; float(n) is n."""
    if isinstance(node, ast.Call) and len(node.args) == 1:
        node = node.args[0]
    return node.value if isinstance(node, ast.Constant) else last_name(node)


def _is_mean(script: ScriptAnalysis, value: ast.expr | None) -> bool:
    """`criterion(output, target)` with a loss of torch.nn, or `F.cross_entropy(...)`."""
    if not isinstance(value, ast.Call):
        return False
    index = script.view.index
    if (full_name(index, value.func) or "").startswith("torch.nn.functional."):
        return True
    bindings = index.lookup(value.func) if isinstance(value.func, ast.Name) else []
    made = [one.value.func for one in bindings if isinstance(one.value, ast.Call)]
    names = [full_name(index, one) or "" for one in made]
    return len(names) == len(bindings) == 1 and names[0].startswith("torch.nn.") and names[0].endswith("Loss")
