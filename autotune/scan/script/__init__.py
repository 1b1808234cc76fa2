"""Reads training scripts: what they give to which call, and what they do in every step. Nothing is run."""

from __future__ import annotations

import ast
from collections import defaultdict
from collections.abc import Iterator, Mapping

from msgspec.structs import replace

from autotune.model.evidence import Fact
from autotune.model.scanned import WrittenValue
from autotune.pycode import cli_options, values
from autotune.pycode.build_index import build
from autotune.pycode.functions import called_class
from autotune.pycode.index import Index, last_name
from autotune.pycode.names import full_name, is_whole
from autotune.pycode.reachability import is_reached
from autotune.pycode.script_view import ScriptView, TrainingEntryPoint
from autotune.pycode.work_budget import Work
from autotune.scan.facts import (
    accelerate_loops,
    accumulation,
    contrastive_loss,
    dataset_styles,
    datasets,
    distributed,
    environment_variables,
    epochs,
    evaluation_grad,
    loss_weighting,
    precision,
    process_setup,
    retained_losses,
    step_path,
    tf32,
    torch_switches,
)
from autotune.scan.script import cross_file_calls, loaders, save_intervals, training_loops
from autotune.scan.script.analysis import ScriptAnalysis, starts_training
from autotune.scan.script.consumer_calls import assigned_arguments, calls, locate_calls
from autotune.scan.script.consumers import of_class, of_name
from autotune.scan.script.scanned_script import ScannedScript
from autotune.syntax.python import Source

__all__ = [
    "Index",
    "ScannedScript",
    "ScriptView",
    "TrainingEntryPoint",
    "opened",
    "read_script",
    "read_view",
    "training",
]


def read_script(
    source: Source,
    file: str,
    flags: Mapping[str, WrittenValue] | None = None,
    *,
    is_open: bool = False,
    is_module: bool = False,
    work: Work | None = None,
) -> ScannedScript:
    """The script in `source`; `flags` is the command line that starts it, by option name, None when it is not known.

    `is_open` says that the command line may have more flags than these, `is_module` that another script imports it.
    `work` is what may still be spent on the file. Raises TooComplex when that is too little.
    """
    built = build(source.tree, work or Work())
    view = opened(built, source, file, flags, is_open=is_open)
    return read_view(replace(view, is_module=is_module))


def opened(
    index: Index, source: Source, file: str, flags: Mapping[str, WrittenValue] | None, *, is_open: bool
) -> ScriptView:
    """The view of a script that is started with these flags."""
    return ScriptView(index, source, file, cli_options.read(index), flags, is_open or flags is None, reach=is_reached)


def training(view: ScriptView) -> tuple[training_loops.TrainingStep, ...]:
    """The training steps of a file; what they take batches from is known to all files of the run from then on."""
    steps = training_loops.steps(view)
    loaders.feeds(view, steps)
    return steps


def read_view(view: ScriptView, steps: tuple[training_loops.TrainingStep, ...] | None = None) -> ScannedScript:
    """What a script, or a module of one, calls and does. Raises TooComplex as read_script does."""
    steps = training(view) if steps is None else steps
    parts = _parts(view, steps)
    trains = bool(parts.steps) or bool(starts_training(view))
    subjects = {loader.node: loader.subject for loader in parts.loaders}
    return ScannedScript(
        file=view.file,
        calls=(*calls(view, parts.found, subjects), *(save_intervals.calls(view, steps) if parts.is_own_loop else ())),
        facts=tuple(fact for fact in _facts(parts) if trains or fact.value),
        imports=frozenset(view.index.imports),
        options=dict(_options(view)),
        parses=tuple(dict.fromkeys(_parsed(view))),
        stored=assigned_arguments(view),
        trains=trains,
        entries=cross_file_calls.entries(view, parts.steps),
        called=cross_file_calls.called_elsewhere(view),
    )


def _parts(view: ScriptView, steps: tuple[training_loops.TrainingStep, ...]) -> ScriptAnalysis:
    found = locate_calls(view)
    path, named = training_loops.step_path(view, steps), loaders.loaders(view, found, steps)
    names: dict[str, list[ast.Call]] = defaultdict(list)
    for call in view.index.calls:
        names[full_name(view.index, call.func) or ""].append(call)
    return ScriptAnalysis(view, found, steps, path, named, names, is_whole(view.index))


def _facts(parts: ScriptAnalysis) -> Iterator[Fact]:
    yield from loaders.facts(parts.view, parts.found, parts.loaders)
    yield from datasets.facts(parts.view, parts.found)
    yield from dataset_styles.facts(parts.view, parts.found)
    yield from step_path.facts(parts.view, parts.steps, parts.path)
    yield from accumulation.facts(parts)
    yield from epochs.facts(parts)
    yield from precision.facts(parts)
    yield from tf32.facts(parts)
    yield from distributed.facts(parts)
    yield from loss_weighting.facts(parts)
    yield from accelerate_loops.facts(parts)
    yield from contrastive_loss.facts(parts)
    yield from torch_switches.facts(parts)
    yield from retained_losses.facts(parts)
    yield from evaluation_grad.facts(parts)
    yield from environment_variables.facts(parts)
    yield from process_setup.facts(parts)


def _options(view: ScriptView) -> Iterator[tuple[str, WrittenValue]]:
    """The options of the script's parsers, of its commands, and of the dataclasses that it parses."""
    found = dict(view.options)
    for function in view.index.functions:
        found |= cli_options.of_function(view.index, function)
    for call in view.index.calls:
        for named in (
            *cli_options.parsed_classes(view.index, call),
            *cli_options.given_classes(view.index, cli_options.parser_of(view.index, call)),
        ):
            class_ = called_class(view.index, named)
            found |= cli_options.of_class(view.index, class_) if class_ is not None else {}
    for name, option in found.items():
        yield name, replace(values.of_option(view, option), key=name)


def _parsed(view: ScriptView) -> Iterator[str]:
    for call in view.index.calls:
        parser = cli_options.parser_of(view.index, call) if is_reached(view, call) is not False else None
        for named in cli_options.given_classes(view.index, parser):
            class_, name = called_class(view.index, named), full_name(view.index, named)
            which = of_name(name or "") or (of_class(view.index, class_) if class_ is not None else None)
            yield which.name if which is not None else (name or last_name(named)).split(".")[-1]
