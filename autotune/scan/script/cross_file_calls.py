"""What a script and the modules that it imports know of each other: who calls what."""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterable, Iterator

from autotune.pycode.functions import bound, with_callers
from autotune.pycode.names import READ_LIBRARIES, full_name
from autotune.pycode.reachability import is_reached
from autotune.pycode.script_view import ScriptView, TrainingEntryPoint
from autotune.scan.script.training_loops import TrainingStep

LIBRARIES = READ_LIBRARIES | sys.stdlib_module_names


def called_elsewhere(view: ScriptView) -> frozenset[str]:
    """The full names of what the script certainly calls of modules that may be its own: "engine.train_one_epoch"."""
    found = set()
    for call in view.index.calls:
        name = full_name(view.index, call.func) or ""
        is_own = "." in name and name.split(".")[0] not in LIBRARIES
        if is_own and name not in found and is_reached(view, call):
            found.add(name)
    return frozenset(found)


def entries(view: ScriptView, steps: Iterable[TrainingStep]) -> tuple[TrainingEntryPoint, ...]:
    """The functions and classes with which another script makes this one train."""
    found: dict[TrainingEntryPoint, None] = {}
    for step in steps:
        for one in () if step.is_hook else with_callers(view.index, step.node):
            function = view.index.function(one)
            class_ = view.index.method_class(function) if function is not None else None
            if function is None or not isinstance(view.index.parents[class_ or function], ast.Module):
                continue
            method = "" if class_ is None or function.name.startswith("__") else function.name
            found[TrainingEntryPoint(class_ or function, method)] = None
    return tuple(found)


def trained_elsewhere(view: ScriptView) -> Iterator[ast.Call]:
    """The calls that train in a module that the script imports."""
    for call in view.index.calls if view.trained else ():
        nodes = (one.node for one in bound(view.index, call.func))
        for entry in (one for node in nodes for one in view.trained.get(node, ())):
            is_used = not entry.method or entry.method in view.index.called
            if is_used and is_reached(view, call) is not False:
                yield call
