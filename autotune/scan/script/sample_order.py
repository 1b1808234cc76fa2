"""Whether a loader or a sampler draws its samples at random."""

from __future__ import annotations

import ast

from autotune.model.scanned import ConsumerCall
from autotune.pycode import values
from autotune.pycode.names import full_name, package_and_name
from autotune.pycode.origins import origins
from autotune.pycode.script_view import ScriptView
from autotune.scan.script.consumers import DATALOADER

SAMPLERS = ("sampler", "batch_sampler")
"""Arguments of a DataLoader that give the order in the place of `shuffle`."""

RANDOM = frozenset({"RandomSampler", "SubsetRandomSampler", "WeightedRandomSampler"})


def shuffles(view: ScriptView, loader: ast.Call, call: ConsumerCall) -> bool | None:
    """Whether a DataLoader draws its samples at random; None where it is not certain. `call` is what it is given."""
    samplers = [name for name in SAMPLERS if name in call.arguments and not _is_none(call, name)]
    if samplers:
        drawn = {_all_random(view, _argument(loader, name, DATALOADER.index(name))) for name in samplers}
        return drawn.pop() if len(drawn) == 1 else None
    told = call.arguments.get("shuffle")
    is_told = told is None or (told.known and isinstance(told.value, bool))
    is_random = told is not None and told.value is True
    # What cannot be read may be a sampler, which torch does not take beside shuffle=True.
    return is_random if is_told and (is_random or not call.is_open) else None


def is_random(view: ScriptView, node: ast.AST) -> bool | None:
    """Whether what a sampler of torch yields is drawn at random; None for any other expression."""
    package, name = package_and_name(full_name(view.index, node.func)) if isinstance(node, ast.Call) else ("", "")
    if package != "torch" or not isinstance(node, ast.Call) or any(one.arg is None for one in node.keywords):
        return None
    if name == "DistributedSampler":
        told = _argument(node, "shuffle", 3)
        return True if told is None else values.is_true(view, told)
    if name == "BatchSampler":
        return _all_random(view, _argument(node, "sampler", 0))
    return {**dict.fromkeys(RANDOM, True), "SequentialSampler": False}.get(name)


def _all_random(view: ScriptView, sampler: ast.expr | None) -> bool | None:
    if sampler is None:
        return None
    found = {is_random(view, origin.node) for origin in origins(view, sampler)}
    return found.pop() if len(found) == 1 else None


def _is_none(call: ConsumerCall, name: str) -> bool:
    return call.arguments[name].known and call.arguments[name].value is None


def _argument(call: ast.Call, name: str, place: int) -> ast.expr | None:
    """What a call is given by this name, or at this place."""
    named = [one.value for one in call.keywords if one.arg == name]
    is_plain = not any(isinstance(one, ast.Starred) for one in call.args)
    return next(iter([*named, *(call.args[place : place + 1] if is_plain else ())]), None)
