"""The arguments of a call that are taken as unknown, because the code around the call is the reason for them."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from autotune.pycode.functions import called_class
from autotune.pycode.index import Function
from autotune.pycode.origins import origins
from autotune.pycode.reachability import is_reached
from autotune.pycode.script_view import ScriptView
from autotune.scan.script.consumers import ConsumerSpec
from autotune.scan.script.training_models import DEVICE
from autotune.syntax.python import last_name

OF_WORKERS = ("num_workers", "pin_memory", "prefetch_factor", "persistent_workers", "multiprocessing_context")

MOVES = frozenset({"to", "cuda"})

NO_GRADIENTS = frozenset({"no_grad", "inference_mode"})
INFERENCE = NO_GRADIENTS | {"generate", "eval"}
TRAINING = frozenset({"backward", "train", "fit", "step"})


def unknown_arguments(view: ScriptView, node: ast.Call, which: ConsumerSpec) -> tuple[str, ...]:
    """The arguments of a call that are to be taken as unknown.

    Workers cannot use CUDA tensors unless they are spawned: a loader that makes them has none for a reason. A device
    map is right for a model that the function around it only runs.
    """
    if which.kind == "loader" and any(_moves_to_gpu(one) for one in _batch_code(view, node)):
        return OF_WORKERS
    is_elsewhere = view.is_module and is_reached(view, node) is None
    if which.name == "from_pretrained" and (is_elsewhere or _only_runs(view, node)):
        return ("device_map",)
    return ()


def _batch_code(view: ScriptView, loader: ast.Call) -> Iterator[ast.AST]:
    """The code of the file that makes a loader's batches: its collate_fn, and its dataset's items."""
    given = {keyword.arg: keyword.value for keyword in loader.keywords}
    for node in [one for one in (given.get("collate_fn"), given.get("dataset"), *loader.args[:1]) if one is not None]:
        for origin in origins(view, node):
            made = origin.node
            class_ = called_class(view.index, made.func) if isinstance(made, ast.Call) else None
            if isinstance(made, ast.Lambda | Function):
                yield made
            elif class_ is not None:
                yield from (one for one in class_.body if _name_of(one) in ("__getitem__", "__call__"))


def _name_of(node: ast.AST) -> str:
    return node.name if isinstance(node, Function) else ""


def _moves_to_gpu(code: ast.AST) -> bool:
    """Whether it puts tensors on a GPU: `.cuda()`, `.to("cuda")`, `.to(device)`, `device="cuda"`."""
    for node in ast.walk(code):
        if not isinstance(node, ast.Call):
            continue
        is_move = isinstance(node.func, ast.Attribute) and node.func.attr in MOVES
        targets = [*(node.args[:1] if is_move else ()), *(one.value for one in node.keywords if one.arg == "device")]
        if last_name(node.func) == "cuda" or any(_is_gpu(one) for one in targets):
            return True
    return False


def _is_gpu(target: ast.expr) -> bool:
    if isinstance(target, ast.Constant):
        return str(target.value).startswith("cuda")
    return bool(DEVICE.search(last_name(target)))


def _only_runs(view: ScriptView, node: ast.Call) -> bool:
    """Whether the function around a call runs the model without gradients, and keeps it to itself."""
    function = view.index.enclosing_function(node)
    if function is None:
        return False
    names = {last_name(one) for one in ast.walk(function) if isinstance(one, ast.Name | ast.Attribute)}
    is_test = function.name.startswith("test")
    is_returned = any(isinstance(one, ast.Return) and _mentions(one, view, node) for one in ast.walk(function))
    return (is_test or bool(names & INFERENCE)) and not names & TRAINING and not is_returned


def _mentions(returned: ast.Return, view: ScriptView, node: ast.Call) -> bool:
    """Whether the model is among what is returned."""
    outer = view.index.parents.get(node)
    name = last_name(outer.targets[0]) if isinstance(outer, ast.Assign) else ""
    found = list(ast.walk(returned))
    return node in found or any(isinstance(one, ast.Name) and one.id == name for one in found)
