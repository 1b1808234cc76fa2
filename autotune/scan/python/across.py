"""What a script and the modules that it imports know of each other: who calls what, and with which loader."""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterable, Iterator

from autotune.scan.python.index import Function
from autotune.scan.python.loops import Step
from autotune.scan.python.names import READ_LIBRARIES, full_name
from autotune.scan.python.reach import is_reached
from autotune.scan.python.sources import sources
from autotune.scan.python.uses import passed, with_callers
from autotune.scan.python.view import Entry, View

LIBRARIES = READ_LIBRARIES | sys.stdlib_module_names


def called_elsewhere(view: View) -> frozenset[str]:
    """The full names of what the script certainly calls of modules that may be its own: "engine.train_one_epoch"."""
    found = set()
    for call in view.index.calls:
        name = full_name(view.index, call.func) or ""
        is_own = "." in name and name.split(".")[0] not in LIBRARIES
        if is_own and name not in found and is_reached(view, call):
            found.add(name)
    return frozenset(found)


def entries(view: View, steps: Iterable[Step]) -> tuple[Entry, ...]:
    """The functions and classes with which another script makes this one train."""
    found: dict[Entry, None] = {}
    for step in steps:
        for one in () if step.is_hook else with_callers(view.index, step.node):
            function = view.index.function(one)
            class_ = view.index.method_class(function) if function is not None else None
            if function is None or not isinstance(view.index.parents[class_ or function], ast.Module):
                continue
            method = "" if class_ is None or function.name.startswith("__") else function.name
            loaders = dict.fromkeys(_parameters(view, step, class_ or function))
            found[Entry(class_.name if class_ is not None else function.name, method, tuple(loaders))] = None
    return tuple(found)


def trained_elsewhere(view: View) -> Iterator[tuple[ast.Call, tuple[ast.expr, ...]]]:
    """The calls that train in a module that the script imports, each with the loaders that it passes."""
    for call in view.index.calls if view.trained else ():
        for entry in view.trained.get(full_name(view.index, call.func) or "", ()):
            is_used = not entry.method or entry.method in view.index.called
            if is_used and is_reached(view, call) is not False:
                yield call, tuple(_given(call, entry))


def _parameters(view: View, step: Step, callee: ast.ClassDef | Function) -> Iterator[tuple[str, int]]:
    """The parameters of a function, or of a class's constructor, that the loops of a step iterate over."""
    loops = [one for one in (step.node, *step.around) if isinstance(one, ast.For | ast.AsyncFor)]
    waiting: list[ast.AST] = [loop.iter for loop in loops]
    seen: set[ast.AST] = set()
    for node in waiting:
        for one in sources(view, node):
            function = view.index.function(one) if isinstance(one, ast.arg) and one not in seen else None
            if function is None or not isinstance(one, ast.arg):
                continue
            seen.add(one)
            class_ = view.index.method_class(function)
            names = [argument.arg for argument in (*function.args.posonlyargs, *function.args.args)]
            names = names[1:] if class_ is not None else names
            if callee in (function, class_ if function.name == "__init__" else None):
                yield one.arg, names.index(one.arg) if one.arg in names else len(names)
            waiting += [given for given in passed(view.index, function, one.arg) if given is not None]


def _given(call: ast.Call, entry: Entry) -> Iterator[ast.expr]:
    named = {keyword.arg: keyword.value for keyword in call.keywords}
    for name, place in entry.loaders:
        if name in named:
            yield named[name]
        elif place < len(call.args) and not any(isinstance(one, ast.Starred) for one in call.args):
            yield call.args[place]
