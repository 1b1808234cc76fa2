"""Passes in evaluation mode whose result training uses: pseudo-labels, clusters, a memory bank, hard negatives.

From outside they look like an evaluation. Values are followed by their names ("self.bank", "args.best") through one
function, whatever the order of its lines, and into functions of the file that get them.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Collection, Iterator

from msgspec import Struct

from autotune.model.evidence import Fact
from autotune.pycode.functions import argument, called_function, uses
from autotune.pycode.index import Function, Index
from autotune.pycode.reachability import is_reached
from autotune.scan.script.analysis import ScriptAnalysis
from autotune.scan.script.training_loops import backwards
from autotune.syntax.python import last_name

KEEPS = re.compile(
    r"^(append|extend|add(?!_(scalar|text|image))|update$|update_(?!postfix)|insert|put|push|store|enqueue"
    r"|set_(?!postfix|description|epoch)|refresh_|fill)|[^_]_$"
)
"""Methods after which an object holds what it got; a progress bar that shows it is no such object."""

SELF = frozenset({"self", "cls"})

MAX_CALLS = 3
"""Functions that are followed one inside another."""

DEFINITIONS = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef | ast.Lambda
ASSIGNMENTS = ast.Assign | ast.AugAssign | ast.AnnAssign

Block = Function | ast.Module


class _Step(Struct, frozen=True, eq=False):
    """A backward pass with the loop around it: the names, set outside of that, which its loss is made of."""

    block: ast.AST
    body: ast.AST
    names: frozenset[str]


class _Training(Struct, frozen=True, eq=False):
    """What all passes of a script are held against; `models` are the names of its models."""

    index: Index
    steps: tuple[_Step, ...]
    models: frozenset[str]


class _Pass(Struct, frozen=True, eq=False):
    """What runs between `model.eval()` and the next change of its mode: the names that it sets."""

    block: Block
    made: frozenset[str]


def facts(script: ScriptAnalysis) -> Iterator[Fact]:
    """Fact `code.evaluation_feeds_training`: whether all passes in evaluation mode of a script's own loop do so.

    True only of a script that is all there; none where it is not known what a call switches to evaluation.
    """
    index = script.view.index
    switches = [call for call in (*index.called.get("eval", ()), *index.called.get("train", ())) if _is_switch(call)]
    calls = [one for one in switches if _to_evaluation(one) and is_reached(script.view, one) is not False]
    if not calls or not script.is_own_loop:
        return
    if any(_model(one) is None and isinstance(index.parents.get(one), ast.Expr) for one in calls):
        return
    training = _training(script, switches)
    passes = [(call, found) for call in calls if (found := _pass(training, call, switches)) is not None]
    if not passes:
        return
    feeds = all(_feeds(training, one, MAX_CALLS) for _, one in passes)
    if script.is_whole or not feeds:
        yield from script.state_fact(
            "code.evaluation_feeds_training", feeds, *(call for call, _ in passes), is_certain=True
        )


def _is_switch(call: ast.Call) -> bool:
    return isinstance(call.func, ast.Attribute) and len(call.args) <= 1 and not call.keywords


def _to_evaluation(call: ast.Call) -> bool:
    if last_name(call.func) == "eval":
        return not call.args
    return [one.value for one in call.args if isinstance(one, ast.Constant)] == [False]


def _model(call: ast.Call) -> str | None:
    """The name of what a method is called on."""
    return _name(call.func.value) if isinstance(call.func, ast.Attribute) else None


def _training(script: ScriptAnalysis, switches: Collection[ast.Call]) -> _Training:
    index = script.view.index
    bodies: dict[ast.AST, list[ast.Call]] = {}
    for call in backwards(script.view):
        loops = (one for one in index.ancestors_in_function(call) if isinstance(one, ast.For | ast.While))
        bodies.setdefault(next(loops, _block(index, call)), []).append(call)
    steps = tuple(
        _Step(_block(index, calls[0]), body, frozenset(_leading_to(index, body, calls)))
        for body, calls in bodies.items()
    )
    models = {_model(one) for one in (*switches, *index.called.get("parameters", ()))} - {None, *SELF}
    return _Training(index, steps, frozenset(name for name in models if name is not None))


def _leading_to(index: Index, body: ast.AST, calls: Collection[ast.Call]) -> set[str]:
    """The names from outside of a loop that lead to the losses of these backward passes in it."""
    names: set[str] = set()
    for call in calls:
        names |= _names(call.args[0] if call.args else call.func)  # accelerator.backward(loss), loss.backward()
    own: set[str] = set()
    size = -1
    while size != len(names):
        size = len(names)
        for node in _walk(index, body):
            if isinstance(node, ASSIGNMENTS) and node.value is not None:
                own |= _set_by(node)
                names |= _names(node.value) if _meet(_set_by(node), names) else set()
            elif isinstance(node, ast.For | ast.comprehension):
                own |= _names(node.target)
                names |= _names(node.iter) if _meet(_names(node.target), names) else set()
    return {name for name in names if not any(name == one or name.startswith(f"{one}.") for one in own)}


def _pass(training: _Training, call: ast.Call, switches: Collection[ast.Call]) -> _Pass | None:
    """The pass behind a `model.eval()`; None where nothing calls the model before its mode changes again."""
    index, model = training.index, _model(call)
    block = _block(index, call)
    others = (one for one in switches if _model(one) == model and _block(index, one) is block)
    end = min((one.lineno for one in others if one.lineno > call.lineno), default=None)
    around = set(index.ancestors(call))
    steps = (step.body for step in training.steps if step.body is not step.block and step.body not in around)
    aside = {node for body in steps for node in _walk(index, body)}
    inside = [
        node
        for node in _walk(index, block)
        if node not in aside and call.lineno < (line := getattr(node, "lineno", 0)) and (end is None or line < end)
    ]
    called = (node for node in inside if isinstance(node, ast.Call))
    if model is None or not any(model in (_name(one.func), *map(_name, one.args)) for one in called):
        return None
    made = {name for node in inside if isinstance(node, ASSIGNMENTS) for name in _set_by(node)}
    kept = [one for node in inside if (one := _keeping(node)) is not None and (one.args or one.keywords)]
    made |= {owner for one in kept if (owner := _model(one)) is not None}
    return _Pass(block, frozenset(made))


def _feeds(training: _Training, one: _Pass, depth: int) -> bool:
    """Whether training uses what a pass makes, or what the function that it is returns."""
    if _reaches(training, one.block, one.made, MAX_CALLS):
        return True
    return not isinstance(one.block, ast.Module) and _feeds_by_return(training, one.block, depth)


def _feeds_by_return(training: _Training, function: Function, depth: int) -> bool:
    index = training.index
    if not depth or all(isinstance(one, ast.Constant) for one in index.returns.get(function, ())):
        return False
    for use in uses(index, function):
        call = index.parents.get(use)
        if not isinstance(call, ast.Call) or call.func is not use:
            continue
        block = _block(index, call)
        statement = next((outer for outer in index.ancestors(call) if isinstance(outer, ast.stmt)), None)
        if isinstance(statement, ast.Return) and not isinstance(block, ast.Module) and block is not function:
            if _feeds_by_return(training, block, depth - 1):
                return True
        elif statement is not None and _reaches(training, block, _set_by(statement), MAX_CALLS):
            return True
    return False


def _reaches(training: _Training, block: Block, made: Collection[str], depth: int) -> bool:
    """Whether the values of these names in a function become a part of a loss."""
    index, names = training.index, _with_what_is_made_of(training, block, made)
    for step in training.steps:
        shared = names if step.block is block else {name for name in names if name.partition(".")[0] in SELF}
        if _meet(shared, step.names):
            return True
    for call in (one for one in _walk(index, block) if isinstance(one, ast.Call) and depth and names):
        function = called_function(index, call)
        if function is not None and function is not block:
            passed = list(_passed(index, function, call))
            inner = {known for name, value in passed for known in _names_in_callee(name, value, names)}
            if inner and _reaches(training, function, inner, depth - 1):
                return True
    return False


def _names_in_callee(parameter: str, value: ast.expr, names: Collection[str]) -> Iterator[str]:
    """How a function knows those of these names that it gets: "args.best" as "options.best" where it gets args."""
    own = _name(value)
    for name in names:
        if own is not None and name.startswith(f"{own}."):
            yield f"{parameter}{name.removeprefix(own)}"
        elif _meet(_names(value), [name]):
            yield parameter


def _passed(index: Index, function: Function, call: ast.Call) -> Iterator[tuple[str, ast.expr]]:
    """The parameters of a function with what a call passes for them."""
    places = [one.arg for one in (*function.args.posonlyargs, *function.args.args)]
    if index.method_class(function) is not None and places[:1] and places[0] in SELF:
        places = places[1:]
    for name in (*places, *(one.arg for one in function.args.kwonlyargs)):
        value = argument(index, call, places, name, None)
        if value is not None:
            yield name, value


def _with_what_is_made_of(training: _Training, block: Block, made: Collection[str]) -> set[str]:
    """The names, and those of what is made of them or holds them; without models and what is set in one."""
    names = set(made)
    size = -1
    while size != len(names):
        names = {one for one in names if not any(one == each or one.startswith(f"{each}.") for each in training.models)}
        size = len(names)
        for node in _walk(training.index, block):
            if isinstance(node, ASSIGNMENTS) and node.value is not None:
                names |= _set_by(node) if _meet(_names(node.value), names) else set()
            elif isinstance(node, ast.For | ast.comprehension):
                names |= _names(node.target) if _meet(_names(node.iter), names) else set()
            elif (call := _keeping(node)) is not None and (owner := _model(call)) is not None:
                given = [*call.args, *(one.value for one in call.keywords)]
                names |= {owner} if any(_meet(_names(one), names) for one in given) else set()
        names = {one for one in names if not any(one == each or one.startswith(f"{each}.") for each in training.models)}
    return names


def _keeping(node: ast.AST) -> ast.Call | None:
    """The call of a method, as a statement, after which its object holds what it gets."""
    call = node.value if isinstance(node, ast.Expr) else None
    return call if isinstance(call, ast.Call) and KEEPS.search(last_name(call.func)) else None


def _meet(some: Collection[str], others: Collection[str]) -> bool:
    """Whether a name of the first is one of the second, a part of it, or what it is a part of."""
    return any(
        one == other or one.startswith(f"{other}.") or other.startswith(f"{one}.") for one in some for other in others
    )


def _set_by(statement: ast.AST) -> set[str]:
    """The names that an assignment sets, or in whose object it sets an item; none of another statement."""
    if isinstance(statement, ast.Assign):
        return {name for one in statement.targets for name in _targets(one)}
    return set(_targets(statement.target)) if isinstance(statement, ast.AugAssign | ast.AnnAssign) else set()


def _targets(target: ast.expr) -> Iterator[str]:
    if isinstance(target, ast.Tuple | ast.List):
        for one in target.elts:
            yield from _targets(one)
    elif (name := _name(target.value if isinstance(target, ast.Starred) else target)) is not None:
        yield name


def _names(node: ast.AST) -> set[str]:
    """The names of all values in an expression; of a call of a method, that of its object."""
    found: set[str] = set()
    waiting: list[ast.AST] = [node]
    for one in waiting:
        name = _name(one)
        if isinstance(one, ast.Call) and isinstance(one.func, ast.Attribute):
            waiting += [one.func.value, *one.args, *one.keywords]
        elif name is None:
            waiting += ast.iter_child_nodes(one)
        else:
            found.add(name)
            waiting += _indices(one)
    return found - SELF


def _indices(node: ast.AST) -> Iterator[ast.expr]:
    while isinstance(node, ast.Attribute | ast.Subscript):
        if isinstance(node, ast.Subscript):
            yield node.slice
        node = node.value


def _name(node: ast.AST) -> str | None:
    """How a value is called, with the keys that are written out: "args.best", "cfg.best" of cfg["best"]; None of what
    has no name."""
    if isinstance(node, ast.Name):
        return node.id
    if not isinstance(node, ast.Attribute | ast.Subscript):
        return None
    owner = _name(node.value)
    if owner is None:
        return None
    if isinstance(node, ast.Attribute):
        return f"{owner}.{node.attr}"
    key = node.slice
    return f"{owner}.{key.value}" if isinstance(key, ast.Constant) and isinstance(key.value, str) else owner


def _walk(index: Index, node: ast.AST) -> Iterator[ast.AST]:
    """The nodes in a function, a loop or a file, without those of the functions and classes defined in it, and without
    annotations."""
    waiting = [node]
    for one in waiting:
        index.work.spend()
        yield one
        for name, value in ast.iter_fields(one):
            if name not in ("annotation", "returns"):
                every = value if isinstance(value, list) else [value]
                waiting += (each for each in every if isinstance(each, ast.AST) and not isinstance(each, DEFINITIONS))


def _block(index: Index, node: ast.AST) -> Block:
    """The function around a node, else its file."""
    found = index.enclosing_function(node) or index.root(node)
    assert isinstance(found, ast.FunctionDef | ast.AsyncFunctionDef | ast.Module)
    return found
