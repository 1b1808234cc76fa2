"""Whether a compute_loss of the script weighs every item of a step alike, where the Trainer leaves that to it.

transformers 5.23 trainer.py: training_step divides by the accumulation steps unless the model takes keyword arguments
(model_accepts_loss_kwargs, which __init__ sets over what a class says) or loss_is_scaled_for_ga says otherwise.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from autotune.model.evidence import Fact
from autotune.pycode import values
from autotune.pycode.functions import called_class, with_bases
from autotune.pycode.names import full_name, package_and_name
from autotune.pycode.origins import origins
from autotune.scan.script.analysis import ScriptAnalysis

NUM_ITEMS = "num_items_in_batch"

TRAINERS = {("transformers", "Trainer"), ("transformers", "Seq2SeqTrainer"), ("trl", "SFTTrainer")}
"""Trainers that do not divide the loss of a model that takes the number of items; trl's others do."""

SAYS = ("loss_is_scaled_for_ga", "accepts_loss_kwargs")
"""What a Trainer or a model may say about it, in its class or afterwards."""


def facts(script: ScriptAnalysis) -> Iterator[Fact]:
    """Facts `code.loss_ignores_num_items` and `code.loss_reads_labels`, of the first compute_loss of a class that
    extends such a Trainer."""
    for class_ in script.view.index.classes:
        bases = {package_and_name(full_name(script.view.index, base)) for base in class_.bases}
        methods = [one for one in class_.body if isinstance(one, ast.FunctionDef) and one.name == "compute_loss"]
        if bases & TRAINERS and methods:
            if not _may_be_divided(script, class_):
                yield from script.state_fact("code.loss_ignores_num_items", not _uses_num_items(methods[0]), methods[0])
                takes = _takes_num_items(methods[0])
                yield from script.state_fact("code.loss_takes_no_num_items", not takes, methods[0], is_certain=True)
                yield from script.state_fact("code.loss_reads_labels", _reads_labels(methods[0]), methods[0])
            return


def _uses_num_items(method: ast.FunctionDef) -> bool:
    packed = [one.arg for one in (method.args.vararg, method.args.kwarg) if one is not None]
    return any(isinstance(node, ast.Name) and node.id in (NUM_ITEMS, *packed) for node in ast.walk(method))


def _takes_num_items(method: ast.FunctionDef) -> bool:
    """Whether the Trainer may call it with num_items_in_batch=..."""
    every = method.args
    return every.kwarg is not None or any(one.arg == NUM_ITEMS for one in (*every.args, *every.kwonlyargs))


def _reads_labels(method: ast.FunctionDef) -> bool:
    """Whether it reads `inputs["labels"]`, or hands all inputs on by name; without labels no items are counted."""
    nodes = list(ast.walk(method))
    is_named = any(isinstance(one, ast.Constant) and one.value == "labels" for one in nodes)
    return is_named or any(isinstance(one, ast.keyword) and one.arg is None for one in nodes)


def _may_be_divided(script: ScriptAnalysis, trainer: ast.ClassDef) -> bool:
    """Whether the Trainer may divide the loss by the accumulation steps itself."""
    index = script.view.index
    told = index.stores.get("model_accepts_loss_kwargs", ())
    if any(one.value is None or values.is_true(script.view, one.value) is not True for one in told):
        return True
    if any(index.stores.get(name) or any(name in index.inner[one].bindings for one in index.classes) for name in SAYS):
        return True
    return any(_takes_no_keywords(script, one) for one in _model_classes(script, trainer))


def _model_classes(script: ScriptAnalysis, trainer: ast.ClassDef) -> list[ast.ClassDef]:
    """The classes of this file of which the trainer's model may be; all of them where it cannot be followed."""
    index = script.view.index
    calls = [call for call in index.calls if called_class(index, call.func) is trainer]
    given = [one.value for call in calls for one in call.keywords if one.arg == "model"]
    if "__init__" not in index.inner[trainer].bindings:
        given += [call.args[0] for call in calls if call.args]
    makers = [_class_name(one.node) for model in given for one in origins(script.view, model)]
    classes = [called_class(index, one) for one in makers]
    others = [one for one, class_ in zip(makers, classes, strict=True) if class_ is None]
    if makers and all((full_name(index, one) or "").startswith("transformers.") for one in others):
        return [one for one in classes if one is not None]
    return index.classes


def _class_name(node: ast.AST) -> ast.AST:
    """The class in `Model(...)` and `Model.from_pretrained(...)`."""
    made = node.func if isinstance(node, ast.Call) else node
    return made.value if isinstance(made, ast.Attribute) and made.attr in ("from_pretrained", "from_config") else made


def _takes_no_keywords(script: ScriptAnalysis, class_: ast.ClassDef) -> bool:
    """Whether the model's forward has no **kwargs."""
    for one in with_bases(script.view.index, class_):
        for method in one.body:
            if isinstance(method, ast.FunctionDef) and method.name == "forward":
                return method.args.kwarg is None
    return False
