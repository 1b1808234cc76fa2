"""Passes in evaluation mode whose result training uses: pseudo-labels, clusters, a memory bank, hard negatives.

From outside they look like an evaluation. What a value leads to is followed by name within one function, and into the
functions of the file that get it.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Collection, Iterator, Sequence

from msgspec import Struct

from autotune.model.evidence import Fact
from autotune.pycode.functions import called_function, uses
from autotune.pycode.index import Function, Index, base_name
from autotune.pycode.reachability import is_reached
from autotune.scan.script.analysis import ScriptAnalysis
from autotune.scan.script.training_loops import backwards
from autotune.syntax.python import last_name

DATA = re.compile(r"(loader|dataset|sampler|subset)$", re.IGNORECASE)
"""What makes the data of training from the values that it gets."""

KEEPS = re.compile(r"^(append|extend|add|update|insert|put|push|store|enqueue|set|refresh|fill)|[^_]_$")
"""Methods after which an object holds what it got."""

NO_GRAPH = frozenset({"no_grad", "inference_mode"})

MAX_CALLS = 3
"""Functions that are followed one inside another."""

DEFINITIONS = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef | ast.Lambda

Block = Function | ast.Module


class _Step(Struct, frozen=True, eq=False):
    """A backward pass in its function: the names, set outside of its loop, that its loss is made of."""

    block: Block
    names: frozenset[str]


def facts(script: ScriptAnalysis) -> Iterator[Fact]:
    """Fact `code.evaluation_feeds_training`: whether all passes in evaluation mode of a script's own loop do so."""
    if not script.is_own_loop:
        return
    index = script.view.index
    calls = [one for one in index.called.get("eval", ()) if not one.args and base_name(one)]
    steps = [_step(index, call) for call in backwards(script.view)]
    found = [_feeds(index, call, steps) for call in calls if is_reached(script.view, call) is not False]
    if found:
        yield from script.state_fact("code.evaluation_feeds_training", all(found), *calls)


def _feeds(index: Index, call: ast.Call, steps: Sequence[_Step]) -> bool:
    """Whether training uses what comes of the pass behind one `model.eval()`."""
    block = _block(index, call)
    models = {base_name(one) for name in ("eval", "train", "parameters") for one in index.called.get(name, ())}
    if not isinstance(block, ast.Module) and any(not _is_none(one) for one in index.returns.get(block, ())):
        statements = [_statement(index, use) for use in uses(index, block)]
        return any(
            _reaches(index, _block(index, one), _targets(one), models, steps, MAX_CALLS)
            for one in statements
            if one is not None
        )
    return _reaches(index, block, _made_without_graph(block), models, steps, MAX_CALLS)


def _reaches(
    index: Index, block: Block, made: Collection[str], models: Collection[str], steps: Sequence[_Step], depth: int
) -> bool:
    """Whether the values of these names in a function become a part of its training data or of a loss."""
    names = _with_what_is_made_of(block, set(made) - set(models), models)
    if any(step.block is block and not names.isdisjoint(step.names) for step in steps):
        return True
    for call in (one for one in _walk(block) if isinstance(one, ast.Call)):
        given = [*call.args, *(one.value for one in call.keywords)]
        if not any(_names(one) & names for one in given):
            continue
        if DATA.search(last_name(call.func)):
            return True
        function = called_function(index, call)
        if function is not None and function is not block and depth:
            places = zip(function.args.args, call.args, strict=False)
            inner = {name.arg for name, value in places if _names(value) & names}
            inner |= {one.arg for one in call.keywords if one.arg and _names(one.value) & names}
            if _reaches(index, function, inner, models, steps, depth - 1):
                return True
    return False


def _with_what_is_made_of(block: Block, names: set[str], models: Collection[str]) -> set[str]:
    """The names, and those of what is made of them or holds them: a list that they are appended to."""
    size = -1
    while size != len(names):
        size = len(names)
        for node in _walk(block):
            if isinstance(node, ast.Assign | ast.AugAssign | ast.AnnAssign) and node.value is not None:
                names |= _targets(node) if _names(node.value) & names else set()
            elif isinstance(node, ast.For | ast.comprehension):
                names |= _names(node.target) if _names(node.iter) & names else set()
            elif (call := _keeping(node)) is not None:
                given = [*call.args, *(one.value for one in call.keywords)]
                names |= {base_name(call)} - {""} if any(_names(one) & names for one in given) else set()
        names -= set(models)
    return names


def _step(index: Index, call: ast.Call) -> _Step:
    """Of a backward pass, the names from outside of its loop that lead to its loss."""
    block = _block(index, call)
    loops = (one for one in index.ancestors_in_function(call) if isinstance(one, ast.For | ast.While))
    body: ast.AST = next(loops, block)
    lost = call.args[:1] or [call.func]  # accelerator.backward(loss), loss.backward()
    names, own, size = _names(lost[0]), set(), -1
    while size != len(names):
        size = len(names)
        for node in _walk(body):
            if isinstance(node, ast.Assign | ast.AugAssign | ast.AnnAssign) and node.value is not None:
                names |= _names(node.value) if _targets(node) & names else set()
                own |= {
                    one.id for one in ast.walk(node) if isinstance(one, ast.Name) and isinstance(one.ctx, ast.Store)
                }
            elif isinstance(node, ast.For | ast.comprehension):
                names |= _names(node.iter) if _names(node.target) & names else set()
                own |= _names(node.target)
    return _Step(block, frozenset(names - own))


def _made_without_graph(block: Block) -> set[str]:
    """The names that a function sets, or changes, below `with torch.no_grad():`."""
    found: set[str] = set()
    for outer in _walk(block):
        if isinstance(outer, ast.With) and any(_is_no_graph(one.context_expr) for one in outer.items):
            for node in ast.walk(outer):
                if isinstance(node, ast.Assign | ast.AugAssign | ast.AnnAssign):
                    found |= _targets(node)
                elif (call := _keeping(node)) is not None:
                    found |= {base_name(call)} - {""}
    return found


def _keeping(node: ast.AST) -> ast.Call | None:
    """The call of a method, as a statement, that adds to its object."""
    call = node.value if isinstance(node, ast.Expr) else None
    return call if isinstance(call, ast.Call) and KEEPS.search(last_name(call.func)) else None


def _is_no_graph(node: ast.expr) -> bool:
    return isinstance(node, ast.Call) and last_name(node.func) in NO_GRAPH


def _targets(node: ast.AST) -> set[str]:
    """The names that a statement sets, or in whose object it sets something; none where it sets nothing."""
    if isinstance(node, ast.Assign):
        return {name for one in node.targets for name in _set_by(one)}
    return _set_by(node.target) if isinstance(node, ast.AugAssign | ast.AnnAssign) else set()


def _set_by(target: ast.expr) -> set[str]:
    if isinstance(target, ast.Tuple | ast.List):
        return {name for one in target.elts for name in _set_by(one)}
    if isinstance(target, ast.Starred | ast.Subscript):
        return _set_by(target.value)
    owner = _set_by(target.value) if isinstance(target, ast.Attribute) else set()
    return {last_name(target), *owner} - {"self", ""}


def _names(node: ast.AST) -> set[str]:
    """The names and attributes in an expression, without those of methods."""
    methods = {one.func for one in ast.walk(node) if isinstance(one, ast.Call) and isinstance(one.func, ast.Attribute)}
    every = (one for one in ast.walk(node) if isinstance(one, ast.Name | ast.Attribute) and one not in methods)
    return {last_name(one) for one in every} - {"self", ""}


def _walk(node: ast.AST) -> Iterator[ast.AST]:
    """The nodes in a function, a loop or a file, without those of the functions and classes defined in it."""
    waiting = [node]
    for one in waiting:
        yield one
        waiting += (inner for inner in ast.iter_child_nodes(one) if not isinstance(inner, DEFINITIONS))


def _statement(index: Index, node: ast.AST) -> ast.stmt | None:
    """The statement around a call; None for what is no call, or stands in no assignment."""
    outer = index.parents.get(node)
    if not isinstance(outer, ast.Call) or outer.func is not node:
        return None
    found = next((one for one in index.ancestors(node) if isinstance(one, ast.stmt)), None)
    return found if isinstance(found, ast.Assign | ast.AugAssign | ast.AnnAssign) else None


def _block(index: Index, node: ast.AST) -> Block:
    return index.enclosing_function(node) or index.tree


def _is_none(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and node.value is None
