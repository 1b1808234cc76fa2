"""What was found in a script, for all that state facts about it."""

from __future__ import annotations

import ast
from collections.abc import Collection, Iterator, Mapping, Sequence

from msgspec import Struct

from autotune.catalogue import frameworks
from autotune.catalogue.frameworks import Framework
from autotune.model.evidence import RUN, Fact, Value
from autotune.pycode.functions import called_class, with_bases
from autotune.pycode.index import last_name
from autotune.pycode.origins import origins
from autotune.pycode.reachability import is_reached
from autotune.pycode.script_view import ScriptView
from autotune.scan.script.consumer_calls import LocatedCall
from autotune.scan.script.consumers import consumer
from autotune.scan.script.cross_file_calls import trained_elsewhere
from autotune.scan.script.loaders import LoaderCall
from autotune.scan.script.training_loops import TrainingStep

ENGINES = frozenset({"deepspeed"})
"""Packages that change how a loop trains, besides those of the trainer frameworks."""


class ScriptAnalysis(Struct, frozen=True, eq=False):
    """`path` are the calls of the step path, `names` all calls by the full name of what they call.

    `is_whole` says that the script imports no code of its own.
    """

    view: ScriptView
    found: tuple[LocatedCall, ...]
    steps: tuple[TrainingStep, ...]
    path: dict[ast.Call, None]
    loaders: tuple[LoaderCall, ...]
    names: Mapping[str, Sequence[ast.Call]]
    is_whole: bool

    @property
    def is_raw(self) -> bool:
        """Whether the script trains in a loop of its own that no library changes."""
        around_loops = {package for one in self._frameworks if one.loop == "script" for package in one.packages}
        return self.is_own_loop and not self._roots & around_loops

    @property
    def is_own_loop(self) -> bool:
        """Whether the script trains in a loop of its own, in which a framework may wrap model and optimizer."""
        trainers = {one.name for one in self._frameworks if one.loop == "framework"}
        has_trainer = any(one.consumer.dialect in trainers for one in self.found)
        changes = ENGINES.union(*(one.replaces_loop for one in self._frameworks))
        return any(not step.is_hook for step in self.steps) and not has_trainer and not self._roots & changes

    @property
    def _frameworks(self) -> Collection[Framework]:
        return frameworks.frameworks().values()

    @property
    def _roots(self) -> set[str]:
        roots = {module.split(".")[0] for module in self.view.index.imports}
        return {frameworks.aliases().get(root, root).split(".")[0] for root in roots}

    def named(self, names: Collection[str]) -> list[ast.Call]:
        """The calls of these full names that the script may reach."""
        calls = [call for name in sorted(names) for call in self.names.get(name, ())]
        return [call for call in calls if is_reached(self.view, call) is not False]

    def stated(self, name: str, value: Value | None, *nodes: ast.AST, is_certain: bool = False) -> Iterator[Fact]:
        """The fact; a False only of a script that is all there, unless what is there is enough for it."""
        if value is None or (value is False and not self.is_whole and not is_certain):
            return
        yield Fact(name, RUN, value, tuple(self.view.place(node) for node in nodes))


def trainer_runs(view: ScriptView) -> list[ast.Call]:
    """`trainer.train()` and `trainer.fit(model)` of a library's Trainer, and a class that trains when it is made."""
    known = frameworks.frameworks().values()
    classes = {class_ for one in known for class_ in one.starts_by_call}
    ends = tuple(class_[-3:] for class_ in classes)  # what extends one is called alike: MyCLI
    found = [call for name, calls in view.index.called.items() if name.endswith(ends) for call in calls]
    found = [call for call in found if _is_made(view, call, classes)]
    for name in sorted({method for one in known for method in one.starts}):
        for call in view.index.called.get(name, ()):
            if isinstance(call.func, ast.Attribute) and _is_trainer(view, call.func.value):
                found.append(call)
    return [call for call in found if is_reached(view, call) is not False]


def _is_made(view: ScriptView, call: ast.Call, classes: Collection[str]) -> bool:
    """Whether a call makes one of these classes, or one that extends it."""
    class_ = called_class(view.index, call.func)
    family = with_bases(view.index, class_) if class_ is not None else ()
    bases = (last_name(base) for one in family for base in one.bases)
    return any(name in classes for name in (last_name(call.func), *bases))


def starts_training(view: ScriptView) -> list[ast.Call]:
    """All calls that train in other code: a library's, or that of a module that the script imports."""
    return [*trainer_runs(view), *trained_elsewhere(view)]


def _is_trainer(view: ScriptView, node: ast.expr) -> bool:
    """Whether an object is made by a class that is called ...Trainer, of a library or of the script, or by a class of a
    framework."""
    if "trainer" in last_name(node).lower():
        return True
    made = [origin.node for origin in origins(view, node)]
    return any(isinstance(one, ast.Call) and _makes_trainer(view, one) for one in made)


def _makes_trainer(view: ScriptView, call: ast.Call) -> bool:
    if last_name(call.func).endswith("Trainer"):
        return True
    found = consumer(view.index, call)
    framework = frameworks.frameworks().get(found.dialect) if found is not None else None
    return framework is not None and framework.loop == "framework"
