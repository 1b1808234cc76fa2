"""The data loaders of a script, and which of them is trained on and which is evaluated on."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence

from msgspec import Struct

from autotune.catalogue import frameworks
from autotune.model.scanned import ConsumerCall
from autotune.pycode.functions import called_function, uses
from autotune.pycode.origins import origins
from autotune.pycode.script_view import ScriptView, ValueOrigin
from autotune.scan.script.consumer_calls import LocatedCall
from autotune.scan.script.run_training import RunTraining
from autotune.scan.script.training_loops import TrainingStep
from autotune.syntax.python import last_name

TRAIN, EVAL = "loader#train", "loader#eval"
"""Their subjects."""

TRAIN_NAME = re.compile(r"(^|_)(train(?!ed)|trn|tr(?![a-z]))", re.IGNORECASE)
EVAL_NAME = re.compile(r"val|eval|test|dev(?!ice)|infer|predict|held_?out", re.IGNORECASE)

MAX_WRAPPERS = 6
"""Calls around a loader, such as enumerate(tqdm(loader))."""


class LoaderCall(Struct, frozen=True, eq=False):
    """A loader's call; `is_train` is None when nothing says what it is for."""

    subject: str
    node: ast.Call
    call: ConsumerCall
    is_train: bool | None


def loader_calls(
    view: ScriptView, consumers: Sequence[LocatedCall], steps: Sequence[TrainingStep], run: RunTraining
) -> tuple[LoaderCall, ...]:
    """The loaders of a script: the first that is trained on is loader#train, the first other one loader#eval."""
    loaders = [one for one in consumers if one.consumer.kind == "loader"]
    uses = _uses(view, [one.node for one in loaders], steps, run)
    named: list[LoaderCall] = []
    for number, one in enumerate(loaders):
        is_train = uses.get(one.node)
        wanted = "" if is_train is None else TRAIN if is_train else EVAL
        is_taken = any(other.subject == wanted for other in named)
        subject = wanted if wanted and not is_taken else f"loader#{number}"
        named.append(LoaderCall(subject, one.node, one.call, is_train))
    return tuple(named)


def dataset_argument(loader: ast.Call) -> ast.expr | None:
    """The dataset that a DataLoader is given."""
    named = [keyword.value for keyword in loader.keywords if keyword.arg == "dataset"]
    return next(iter([*loader.args[:1], *named]), None)


def _uses(
    view: ScriptView, nodes: Sequence[ast.Call], steps: Sequence[TrainingStep], run: RunTraining
) -> Mapping[ast.Call, bool]:
    """Whether each loader is trained on: as loops use it, else as it is named."""
    if not nodes:
        return {}
    trained = run.batch_calls.keys()
    makers = {loop: set(_makers(view, loop.iter)) for loop in _other_loops(view, steps)}
    evaluated = {node for made in makers.values() for node in made}
    looked_at = {node for loop, made in makers.items() if _ends_with_first(loop) for node in made}
    whole = {node for loop, made in makers.items() if not _ends_with_first(loop) for node in made}
    found: dict[ast.Call, bool] = {}
    for node in nodes:
        name = _use_by_name(view, node)
        if node in trained:
            found[node] = True
        elif node in looked_at and node not in whole:
            found[node] = False
        elif name is not None:
            found[node] = name
        elif node in evaluated and trained:
            found[node] = False
    return found | _uses_in_fit(view, nodes)


def batch_calls(view: ScriptView, step: TrainingStep) -> Iterator[tuple[ast.Call, bool | None]]:
    """The calls that make what a training step takes batches from, and whether a loop around starts over with it.

    That is known where the loader itself is iterated over, in code that the file runs.
    """
    loops = () if step.is_hook else (step.node, *step.around)
    for place, loop in enumerate(loops):
        if isinstance(loop, ast.For | ast.AsyncFor):
            function = view.index.enclosing_function(loop)
            is_run = function is None or any(True for _ in uses(view.index, function))
            again = place + 1 < len(loops) if is_run else None
            yield from ((node, again) for node in _makers(view, loop.iter))
    for call in view.index.called.get("next", ()):
        if call.args and any(outer in loops for outer in view.index.ancestors_in_function(call)):
            yield from ((node, None) for node in _makers(view, call.args[0]))


def _other_loops(view: ScriptView, steps: Sequence[TrainingStep]) -> Iterator[ast.For | ast.comprehension]:
    """The loops that train on nothing."""
    training = {loop for step in steps for loop in (step.node, *step.around)}
    yield from (node for node in view.index.loops if node not in training)


def _ends_with_first(loop: ast.For | ast.comprehension) -> bool:
    """Whether a loop only looks at the first batch: its last statement is a break."""
    return isinstance(loop, ast.For) and isinstance(loop.body[-1], ast.Break)


def _use_by_name(view: ScriptView, node: ast.Call) -> bool | None:
    """Whether the loader is for training, as its method, its function or the name that it is given says."""
    function = view.index.enclosing_function(node)
    if function is not None and (is_train := frameworks.loader_methods().get(function.name)) is not None:
        return is_train
    names = list(_assigned_names(view, node))
    if function is not None and "load" in function.name.lower():
        names.append(function.name)
    for name in names:
        if EVAL_NAME.search(name):
            return False
        if TRAIN_NAME.search(name):
            return True
    return None


def _assigned_names(view: ScriptView, node: ast.expr) -> Iterator[str]:
    """The key of a dict, the keyword and the variable that a value goes to, from the inside."""
    inner: ast.AST = node
    for outer in view.index.ancestors_in_function(node):
        if isinstance(outer, ast.Dict) and inner in outer.values:
            key = outer.keys[outer.values.index(inner)]
            yield str(key.value) if isinstance(key, ast.Constant) else ""
        elif isinstance(outer, ast.keyword):
            yield outer.arg or ""
        elif isinstance(outer, ast.Assign | ast.AnnAssign):
            target = outer.targets[0] if isinstance(outer, ast.Assign) else outer.target
            yield last_name(_assigned_target(target, outer.value, node))
        inner = outer


def _assigned_target(target: ast.expr, value: ast.expr | None, node: ast.expr) -> ast.expr:
    """The target of `a, b = x, y` that gets `node`."""
    if isinstance(target, ast.Tuple) and isinstance(value, ast.Tuple) and node in value.elts:
        return dict(zip(value.elts, target.elts, strict=False)).get(node, target)
    return target


def _uses_in_fit(view: ScriptView, nodes: Sequence[ast.Call]) -> dict[ast.Call, bool]:
    """What `trainer.fit(model, train, val)` says."""
    found: dict[ast.Call, bool] = {}
    for call in view.index.called.get("fit", ()):
        given = dict(zip(("model", "train_dataloaders", "val_dataloaders"), call.args, strict=False))
        given |= {keyword.arg or "": keyword.value for keyword in call.keywords}
        for name, is_train in (("val_dataloaders", False), ("train_dataloaders", True)):
            if name in given:
                found |= {node: is_train for node in _makers(view, given[name]) if node in nodes}
    return found


def _sources(view: ScriptView, node: ast.AST) -> Iterator[ast.AST]:
    """All that an expression iterates over may come from, looking through what wraps it."""
    waiting = [(node, 0)]
    seen = {node}
    while waiting:
        one, depth = waiting.pop()
        for origin in origins(view, one):
            yield origin.node
            inner = (
                [part for part in _wrapped_loaders(view, origin) if part not in seen] if depth < MAX_WRAPPERS else []
            )
            seen.update(inner)
            waiting += [(part, depth + 1) for part in inner]


def _makers(view: ScriptView, node: ast.AST) -> Iterator[ast.Call]:
    """The calls that may make what an expression iterates over."""
    return (one for one in _sources(view, node) if isinstance(one, ast.Call))


def _wrapped_loaders(view: ScriptView, origin: ValueOrigin) -> Iterable[ast.AST]:
    """What may be the loader inside of an expression: arguments of a wrapper, values of a dict."""
    node = origin.node
    if isinstance(node, ast.Call):
        return [] if origin.path or called_function(view.index, node) else node.args
    if isinstance(node, ast.Dict | ast.DictComp | ast.Tuple | ast.List):
        return ast.iter_child_nodes(node)
    return [node.value] if isinstance(node, ast.Subscript) else []
