"""Reads training scripts: what they give to which call, and what they do in every step. Nothing is run."""

from __future__ import annotations

import ast
from collections import defaultdict
from collections.abc import Iterator, Mapping

from msgspec.structs import replace

from autotune.model.evidence import Fact
from autotune.model.scanned import Given
from autotune.scan.attempt import Work
from autotune.scan.python import (
    accelerated,
    accumulation,
    across,
    contrastive,
    datasets,
    distributed,
    environment,
    epochs,
    evaluated,
    facts,
    hot,
    intervals,
    kept,
    loaders,
    loops,
    num_items,
    options,
    precision,
    styles,
    switches,
    tf32,
    values,
)
from autotune.scan.python.calls import calls, found_calls, stored
from autotune.scan.python.consumers import of_class, of_name
from autotune.scan.python.index import Index, last_name
from autotune.scan.python.names import full_name, is_whole
from autotune.scan.python.parts import Parts, starts
from autotune.scan.python.reach import is_reached
from autotune.scan.python.script import Script
from autotune.scan.python.uses import called_class
from autotune.scan.python.view import Entry, View
from autotune.scan.python.walk import build
from autotune.syntax.python import Source

__all__ = ["Entry", "Index", "Script", "View", "opened", "read_script", "read_view", "training"]


def read_script(
    source: Source,
    file: str,
    flags: Mapping[str, Given] | None = None,
    *,
    is_open: bool = False,
    is_module: bool = False,
    work: Work | None = None,
) -> Script:
    """The script in `source`; `flags` is the command line that starts it, by option name, None when it is not known.

    `is_open` says that the command line may have more flags than these, `is_module` that another script imports it.
    `work` is what may still be spent on the file. Raises TooComplex when that is too little.
    """
    built = build(source.tree, work or Work())
    view = opened(built, source, file, flags, is_open=is_open)
    return read_view(replace(view, is_module=is_module))


def opened(index: Index, source: Source, file: str, flags: Mapping[str, Given] | None, *, is_open: bool) -> View:
    """The view of a script that is started with these flags."""
    return View(index, source, file, options.read(index), flags, is_open or flags is None, reach=is_reached)


def training(view: View) -> tuple[loops.Step, ...]:
    """The training steps of a file; what they take batches from is known to all files of the run from then on."""
    steps = loops.steps(view)
    loaders.feed(view, steps)
    return steps


def read_view(view: View, steps: tuple[loops.Step, ...] | None = None) -> Script:
    """What a script, or a module of one, calls and does. Raises TooComplex as read_script does."""
    steps = training(view) if steps is None else steps
    parts = _parts(view, steps)
    trains = bool(parts.steps) or bool(starts(view))
    subjects = {loader.node: loader.subject for loader in parts.loaders}
    return Script(
        file=view.file,
        calls=(*calls(view, parts.found, subjects), *(intervals.calls(view, steps) if parts.is_own_loop else ())),
        facts=tuple(fact for fact in _facts(parts) if trains or fact.value),
        imports=frozenset(view.index.imports),
        options=dict(_options(view)),
        parses=tuple(dict.fromkeys(_parsed(view))),
        stored=stored(view),
        trains=trains,
        entries=across.entries(view, parts.steps),
        called=across.called_elsewhere(view),
    )


def _parts(view: View, steps: tuple[loops.Step, ...]) -> Parts:
    found = found_calls(view)
    path, named = loops.step_path(view, steps), loaders.loaders(view, found, steps)
    names: dict[str, list[ast.Call]] = defaultdict(list)
    for call in view.index.calls:
        names[full_name(view.index, call.func) or ""].append(call)
    return Parts(view, found, steps, path, named, names, is_whole(view.index))


def _facts(parts: Parts) -> Iterator[Fact]:
    yield from loaders.facts(parts.view, parts.found, parts.loaders)
    yield from datasets.facts(parts.view, parts.found)
    yield from styles.facts(parts.view, parts.found)
    yield from hot.facts(parts.view, parts.steps, parts.path)
    yield from accumulation.facts(parts)
    yield from epochs.facts(parts)
    yield from precision.facts(parts)
    yield from tf32.facts(parts)
    yield from distributed.facts(parts)
    yield from num_items.facts(parts)
    yield from accelerated.facts(parts)
    yield from contrastive.facts(parts)
    yield from switches.facts(parts)
    yield from kept.facts(parts)
    yield from evaluated.facts(parts)
    yield from environment.facts(parts)
    yield from facts.facts(parts)


def _options(view: View) -> Iterator[tuple[str, Given]]:
    """The options of the script's parsers, of its commands, and of the dataclasses that it parses."""
    found = dict(view.options)
    for function in view.index.functions:
        found |= options.of_function(view.index, function)
    for call in view.index.calls:
        for named in (
            *options.parsed_classes(view.index, call),
            *options.given_classes(view.index, options.parser_of(view.index, call)),
        ):
            class_ = called_class(view.index, named)
            found |= options.of_class(view.index, class_) if class_ is not None else {}
    for name, option in found.items():
        yield name, replace(values.of_option(view, option), key=name)


def _parsed(view: View) -> Iterator[str]:
    for call in view.index.calls:
        parser = options.parser_of(view.index, call) if is_reached(view, call) is not False else None
        for named in options.given_classes(view.index, parser):
            class_, name = called_class(view.index, named), full_name(view.index, named)
            which = of_name(name or "") or (of_class(view.index, class_) if class_ is not None else None)
            yield which.name if which is not None else (name or last_name(named)).split(".")[-1]
