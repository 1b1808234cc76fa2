"""The training of a run that its files share: which functions of a module train, and who calls them."""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterable, Iterator

from msgspec import Struct, field

from autotune.catalogue.frameworks import script_packages
from autotune.pycode.functions import bindings_of, with_callers
from autotune.pycode.names import READ_LIBRARIES, full_name
from autotune.pycode.reachability import is_reached
from autotune.pycode.script_view import ScriptView
from autotune.scan.script.training_loops import TrainingStep

LIBRARIES = READ_LIBRARIES | script_packages() | sys.stdlib_module_names


class TrainingEntryPoint(Struct, frozen=True):
    """What another file calls to make this one train: a function, or a class and the method of it that trains."""

    node: ast.AST
    method: str = ""


class RunTraining(Struct, frozen=True, eq=False):
    """What is known of the training of one run, whichever of its files has it. It grows as the files are read."""

    entry_points: dict[ast.AST, list[TrainingEntryPoint]] = field(default_factory=dict)
    """The functions and classes of the modules read so far that train."""
    batch_calls: dict[ast.Call, bool | None] = field(default_factory=dict)
    """The calls that make what training loops take batches from, each with whether a loop around the training loop
    starts over with it; None where that is not known."""


def external_calls(view: ScriptView) -> frozenset[str]:
    """The full names of what the script certainly calls of modules that may be its own: "engine.train_one_epoch"."""
    found = set()
    for call in view.index.calls:
        name = full_name(view.index, call.func) or ""
        is_own = "." in name and name.split(".")[0] not in LIBRARIES
        if is_own and name not in found and is_reached(view, call):
            found.add(name)
    return frozenset(found)


def entry_points(view: ScriptView, steps: Iterable[TrainingStep]) -> tuple[TrainingEntryPoint, ...]:
    """The functions and classes with which another script makes this one train."""
    found: dict[TrainingEntryPoint, None] = {}
    for step in steps:
        for one in () if step.is_hook else with_callers(view.index, step.node):
            function = view.index.enclosing_function(one)
            class_ = view.index.method_class(function) if function is not None else None
            if function is None or not isinstance(view.index.parents[class_ or function], ast.Module):
                continue
            method = "" if class_ is None or function.name.startswith("__") else function.name
            found[TrainingEntryPoint(class_ or function, method)] = None
    return tuple(found)


def calls_of_training_modules(view: ScriptView, run: RunTraining) -> Iterator[ast.Call]:
    """The calls that train in a module that the script imports."""
    for call in view.index.calls if run.entry_points else ():
        nodes = (one.node for one in bindings_of(view.index, call.func))
        for entry in (one for node in nodes for one in run.entry_points.get(node, ())):
            is_used = not entry.method or entry.method in view.index.called
            if is_used and is_reached(view, call) is not False:
                yield call
