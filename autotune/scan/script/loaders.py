"""Which loader is which: what is trained on, what is evaluated on, what they shuffle and hold in memory."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Mapping, Sequence

from msgspec import Struct

from autotune.catalogue import frameworks
from autotune.model.evidence import Fact, Value
from autotune.pycode.functions import uses
from autotune.pycode.index import last_name
from autotune.pycode.script_view import ScriptView
from autotune.scan.facts import dataset_styles, datasets
from autotune.scan.script import sample_order
from autotune.scan.script.batch_sources import made_by
from autotune.scan.script.consumer_calls import LocatedCall
from autotune.scan.script.training_loops import TrainingStep

TRAIN_NAME = re.compile(r"(^|_)(train(?!ed)|trn|tr(?![a-z]))", re.IGNORECASE)
EVAL_NAME = re.compile(r"val|eval|test|dev(?!ice)|infer|predict|held_?out", re.IGNORECASE)


class LoaderCall(Struct, frozen=True, eq=False):
    """A loader's call; `is_train` is None when nothing says what it is for."""

    subject: str
    node: ast.Call
    is_train: bool | None


def loaders(view: ScriptView, found: Sequence[LocatedCall], steps: Sequence[TrainingStep]) -> tuple[LoaderCall, ...]:
    """The loaders of a script: the first that is trained on is loader#train, the first other one loader#eval."""
    nodes = [one.node for one in found if one.consumer.kind == "loader"]
    uses = _uses(view, nodes, steps)
    named: list[LoaderCall] = []
    for number, node in enumerate(nodes):
        is_train = uses.get(node)
        wanted = {True: "loader#train", False: "loader#eval"}.get(is_train, "") if is_train is not None else ""
        is_taken = any(one.subject == wanted for one in named)
        named.append(LoaderCall(wanted if wanted and not is_taken else f"loader#{number}", node, is_train))
    return tuple(named)


def facts(view: ScriptView, found: Sequence[LocatedCall], named: Sequence[LoaderCall]) -> Iterator[Fact]:
    """Facts `loader.*`."""
    calls = {one.node: one.call for one in found}
    for loader in named:
        call = calls[loader.node]
        stated: dict[str, Value | None] = {
            "loader.is_train": loader.is_train,
            "loader.shuffles": sample_order.shuffles(view, loader.node, call),
            "loader.is_iterated_again": view.fed.get(loader.node),
            "loader.is_in_memory": datasets.of_loader(view, loader.node),
            "loader.is_map_style": dataset_styles.of_loader(view, loader.node),
        }
        for name, value in stated.items():
            if value is not None:
                yield Fact(name, loader.subject, value, (call.location,))


def _uses(view: ScriptView, nodes: Sequence[ast.Call], steps: Sequence[TrainingStep]) -> Mapping[ast.Call, bool]:
    """Whether each loader is trained on: as loops use it, else as it is named."""
    if not nodes:
        return {}
    trained = view.fed.keys()
    evaluated = {node for loop in _other_loops(view, steps) for node in made_by(view, loop.iter)}
    found: dict[ast.Call, bool] = {}
    for node in nodes:
        name = _name(view, node)
        if node in trained:
            found[node] = True
        elif name is not None:
            found[node] = name
        elif node in evaluated and trained:
            found[node] = False
    return found | _fitted(view, nodes)


def feeds(view: ScriptView, steps: Sequence[TrainingStep]) -> None:
    """Note what the training steps of a file take their batches from, whichever file makes it."""
    for step in steps:
        view.fed.update(_feeding(view, step))


def _feeding(view: ScriptView, step: TrainingStep) -> Iterator[tuple[ast.Call, bool | None]]:
    """The loaders whose batches a training loop takes, and whether a loop around it starts over with them.

    That is known where the loader itself is iterated over, in code that the file runs.
    """
    loops = () if step.is_hook else (step.node, *step.around)
    for place, loop in enumerate(loops):
        if isinstance(loop, ast.For | ast.AsyncFor):
            function = view.index.function(loop)
            is_run = function is None or any(True for _ in uses(view.index, function))
            again = place + 1 < len(loops) if is_run else None
            yield from ((node, again) for node in made_by(view, loop.iter))
    for call in view.index.called.get("next", ()):
        if call.args and any(outer in loops for outer in view.index.around(call)):
            yield from ((node, None) for node in made_by(view, call.args[0]))


def _other_loops(view: ScriptView, steps: Sequence[TrainingStep]) -> Iterator[ast.For | ast.comprehension]:
    """The loops that train on nothing."""
    training = {loop for step in steps for loop in (step.node, *step.around)}
    yield from (node for node in view.index.loops if node not in training)


def _name(view: ScriptView, node: ast.Call) -> bool | None:
    """Whether the loader is for training, as its method, its function or the name that it is given says."""
    function = view.index.function(node)
    if function is not None and (is_train := frameworks.loader_methods().get(function.name)) is not None:
        return is_train
    names = list(_given_names(view, node))
    if function is not None and "load" in function.name.lower():
        names.append(function.name)
    for name in names:
        if EVAL_NAME.search(name):
            return False
        if TRAIN_NAME.search(name):
            return True
    return None


def _given_names(view: ScriptView, node: ast.expr) -> Iterator[str]:
    """The key of a dict, the keyword and the variable that a value goes to, from the inside."""
    inner: ast.AST = node
    for outer in view.index.around(node):
        if isinstance(outer, ast.Dict) and inner in outer.values:
            key = outer.keys[outer.values.index(inner)]
            yield str(key.value) if isinstance(key, ast.Constant) else ""
        elif isinstance(outer, ast.keyword):
            yield outer.arg or ""
        elif isinstance(outer, ast.Assign | ast.AnnAssign):
            target = outer.targets[0] if isinstance(outer, ast.Assign) else outer.target
            yield last_name(_target(target, outer.value, node))
        inner = outer


def _target(target: ast.expr, value: ast.expr | None, node: ast.expr) -> ast.expr:
    """The target of `a, b = x, y` that gets `node`."""
    if isinstance(target, ast.Tuple) and isinstance(value, ast.Tuple) and node in value.elts:
        return dict(zip(value.elts, target.elts, strict=False)).get(node, target)
    return target


def _fitted(view: ScriptView, nodes: Sequence[ast.Call]) -> dict[ast.Call, bool]:
    """What `trainer.fit(model, train, val)` says."""
    found: dict[ast.Call, bool] = {}
    for call in view.index.called.get("fit", ()):
        given = dict(zip(("model", "train_dataloaders", "val_dataloaders"), call.args, strict=False))
        given |= {keyword.arg or "": keyword.value for keyword in call.keywords}
        for name, is_train in (("val_dataloaders", False), ("train_dataloaders", True)):
            if name in given:
                found |= {node: is_train for node in made_by(view, given[name]) if node in nodes}
    return found
