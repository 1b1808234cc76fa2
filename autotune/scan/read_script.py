"""Reads one training script: the calls that its settings go to, and the facts that its code shows. Runs nothing."""

from __future__ import annotations

import ast
from collections import defaultdict
from collections.abc import Iterator, Mapping

from msgspec import Struct, field
from msgspec.structs import replace

from autotune.model.evidence import Fact
from autotune.model.scanned import ConsumerCall, WrittenValue
from autotune.pycode import cli_options, values
from autotune.pycode.build_index import build
from autotune.pycode.functions import called_class
from autotune.pycode.index import Index
from autotune.pycode.names import full_name, is_whole
from autotune.pycode.reachability import is_reached
from autotune.pycode.script_view import ScriptView
from autotune.pycode.work_budget import Work
from autotune.scan.facts import DETECTORS
from autotune.scan.script import run_training, save_intervals, training_loops
from autotune.scan.script.analysis import ScriptAnalysis, training_starts
from autotune.scan.script.consumer_calls import assigned_arguments, locate_calls, subject_calls
from autotune.scan.script.consumers import of_class, of_name
from autotune.scan.script.loaders import batch_calls, loader_calls
from autotune.scan.script.run_training import RunTraining, TrainingEntryPoint
from autotune.scan.script.training_loops import TrainingStep
from autotune.scan.script.training_models import MODELS
from autotune.syntax.python import Source, last_name


class ScannedScript(Struct, frozen=True):
    """What a script, or a module of one, calls and does."""

    file: str
    calls: tuple[ConsumerCall, ...]
    """The calls that settings go to."""
    facts: tuple[Fact, ...]
    imports: frozenset[str]
    """The modules that it imports, by name."""
    options: Mapping[str, WrittenValue]
    """What its command line accepts, with their defaults."""
    parses: tuple[str, ...]
    """The classes that HfArgumentParser or TrlParser fills from the command line, as the library names them."""
    trains: bool
    """Whether it has a training loop, or runs that of a library or of another module."""
    stored: Mapping[str, WrittenValue] = field(default_factory=dict)
    """What it sets on the classes that a parser filled."""
    entries: tuple[TrainingEntryPoint, ...] = ()
    """What other files call to make it train."""
    called: frozenset[str] = frozenset()
    """The full names of what it certainly calls of other modules of the project."""


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
    index = build(source.tree, work or Work())
    view = view_script(index, source, file, flags, is_open=is_open)
    return read_view(replace(view, is_module=is_module), RunTraining())


def view_script(
    index: Index, source: Source, file: str, flags: Mapping[str, WrittenValue] | None, *, is_open: bool
) -> ScriptView:
    """The view of a script that is started with these flags."""
    options = cli_options.parser_options(index)
    is_open = is_open or flags is None
    return ScriptView(index, source, file, options, flags, is_open, reach=is_reached, models=MODELS)


def find_training(view: ScriptView, run: RunTraining) -> tuple[TrainingStep, ...]:
    """The training steps of a file; `run` gets the calls that make their batches, whichever file makes these."""
    steps = training_loops.training_steps(view)
    for step in steps:
        run.batch_calls.update(batch_calls(view, step))
    return steps


def read_view(view: ScriptView, run: RunTraining, steps: tuple[TrainingStep, ...] | None = None) -> ScannedScript:
    """What a script, or a module of one, calls and does. Raises TooComplex as read_script does.

    `steps` are its training steps, where find_training has found them already.
    """
    script = analyse(view, run, find_training(view, run) if steps is None else steps)
    trains = bool(script.steps) or bool(training_starts(script))
    subjects = {loader.node: loader.subject for loader in script.loaders}
    intervals = save_intervals.interval_calls(view, script.steps) if script.is_own_loop else ()
    return ScannedScript(
        file=view.file,
        calls=(*subject_calls(view, script.consumer_calls, subjects), *intervals),
        facts=tuple(fact for detect in DETECTORS for fact in detect(script) if trains or fact.value),
        imports=frozenset(view.index.imports),
        options=dict(_options(view)),
        parses=tuple(dict.fromkeys(_parsed_classes(view))),
        stored=assigned_arguments(view),
        trains=trains,
        entries=run_training.entry_points(view, script.steps),
        called=run_training.external_calls(view),
    )


def analyse(view: ScriptView, run: RunTraining, steps: tuple[TrainingStep, ...]) -> ScriptAnalysis:
    """What the detectors are told of a script; `steps` are its training steps."""
    consumers = locate_calls(view)
    names: dict[str, list[ast.Call]] = defaultdict(list)
    for call in view.index.calls:
        names[full_name(view.index, call.func) or ""].append(call)
    path = training_loops.step_path(view, steps)
    loaders = loader_calls(view, consumers, steps, run)
    return ScriptAnalysis(view, run, consumers, steps, path, loaders, names, is_whole(view.index))


def _options(view: ScriptView) -> Iterator[tuple[str, WrittenValue]]:
    """The options of the script's parsers, of its commands, and of the dataclasses that it parses."""
    found = dict(view.options)
    for function in view.index.functions:
        found |= cli_options.function_options(view.index, function)
    for call in view.index.calls:
        for named in (
            *cli_options.parsed_classes(view.index, call),
            *cli_options.classes_of_parser(view.index, cli_options.parser_of(view.index, call)),
        ):
            class_ = called_class(view.index, named)
            found |= cli_options.class_options(view.index, class_) if class_ is not None else {}
    for name, option in found.items():
        yield name, replace(values.value_of_option(view, option), key=name)


def _parsed_classes(view: ScriptView) -> Iterator[str]:
    for call in view.index.calls:
        parser = cli_options.parser_of(view.index, call)
        if parser is None or is_reached(view, call) is False:
            continue
        for named in cli_options.classes_of_parser(view.index, parser):
            class_, name = called_class(view.index, named), full_name(view.index, named)
            which = of_name(name or "") or (of_class(view.index, class_) if class_ is not None else None)
            yield which.name if which is not None else (name or last_name(named)).split(".")[-1]
