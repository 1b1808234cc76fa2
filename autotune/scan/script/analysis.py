"""The analysis of one script that every detector of facts gets."""

from __future__ import annotations

import ast
from collections.abc import Collection, Iterator, Mapping, Sequence

from msgspec import Struct

from autotune.model.evidence import RUN, Fact, Value
from autotune.pycode.functions import called_class, with_bases
from autotune.pycode.origins import origins
from autotune.pycode.reachability import is_reached
from autotune.pycode.script_view import ScriptView
from autotune.scan.script.consumer_calls import LocatedCall
from autotune.scan.script.loaders import LoaderCall
from autotune.scan.script.run_training import RunTraining, calls_of_training_modules
from autotune.scan.script.training_loops import TrainingStep
from autotune.syntax.python import last_name

TRAINER_PACKAGES = frozenset({"trl", "lightning", "accelerate", "sentence_transformers", "deepspeed"})
"""Packages that train, or change how a loop trains, in their own code."""

STARTS = frozenset({"train", "fit"})


class ScriptAnalysis(Struct, frozen=True, eq=False):
    """What was found in a script before facts are stated about it."""

    view: ScriptView
    run: RunTraining
    consumer_calls: tuple[LocatedCall, ...]
    """The calls whose arguments are settings, as far as the script may reach them."""
    steps: tuple[TrainingStep, ...]
    step_path: dict[ast.Call, None]
    """The calls that run with every micro-batch or optimizer step, in their order."""
    loaders: tuple[LoaderCall, ...]
    calls_by_name: Mapping[str, Sequence[ast.Call]]
    """All calls by the full name of what they call; "" for what has none."""
    is_whole: bool
    """Whether the script imports no code of its own."""

    @property
    def is_raw(self) -> bool:
        """Whether the script trains in a loop of its own that no library changes."""
        return self.is_own_loop and "accelerate" not in self._roots

    @property
    def is_own_loop(self) -> bool:
        """Whether the script trains in a loop of its own, in which accelerate may wrap model and optimizer."""
        has_trainer = any(one.consumer.dialect == "hf_trainer" for one in self.consumer_calls)
        is_changed = bool(self._roots & TRAINER_PACKAGES - {"accelerate"})
        return any(not step.is_hook for step in self.steps) and not has_trainer and not is_changed

    @property
    def trainers(self) -> list[ast.Call]:
        """The calls that make a Trainer of transformers or trl, which makes its own loaders."""
        return [one.node for one in self.consumer_calls if one.call.name.endswith("Trainer")]

    @property
    def _roots(self) -> set[str]:
        return {module.split(".")[0].replace("pytorch_", "") for module in self.view.index.imports}

    def calls_of(self, names: Collection[str]) -> list[ast.Call]:
        """The calls of these full names that the script may reach."""
        calls = [call for name in sorted(names) for call in self.calls_by_name.get(name, ())]
        return [call for call in calls if is_reached(self.view, call) is not False]

    def state_fact(self, name: str, value: Value | None, *nodes: ast.AST, is_certain: bool = False) -> Iterator[Fact]:
        """The fact; a False only of a script that is all there, unless what is there is enough for it."""
        if value is None or (value is False and not self.is_whole and not is_certain):
            return
        yield Fact(name, RUN, value, tuple(self.view.place(node) for node in nodes))


def trainer_runs(view: ScriptView) -> list[ast.Call]:
    """`trainer.train()` and `trainer.fit(model)` of a library's Trainer, and a LightningCLI or what extends it."""
    found = [call for name, calls in view.index.called.items() if name.endswith("CLI") for call in calls]
    found = [call for call in found if _is_cli(view, call)]
    for name in sorted(STARTS):
        for call in view.index.called.get(name, ()):
            if isinstance(call.func, ast.Attribute) and _is_trainer(view, call.func.value):
                found.append(call)
    return [call for call in found if is_reached(view, call) is not False]


def _is_cli(view: ScriptView, call: ast.Call) -> bool:
    class_ = called_class(view.index, call.func)
    family = with_bases(view.index, class_) if class_ is not None else ()
    bases = (last_name(base) for one in family for base in one.bases)
    return "LightningCLI" in (last_name(call.func), *bases)


def training_starts(script: ScriptAnalysis) -> list[ast.Call]:
    """All calls that train in other code: a library's, or that of a module that the script imports."""
    return [*trainer_runs(script.view), *calls_of_training_modules(script.view, script.run)]


def _is_trainer(view: ScriptView, node: ast.expr) -> bool:
    """Whether an object is made by a class that is called ...Trainer, of a library or of the script."""
    if "trainer" in last_name(node).lower():
        return True
    made = [origin.node for origin in origins(view, node)]
    return any(isinstance(one, ast.Call) and last_name(one.func).endswith("Trainer") for one in made)
