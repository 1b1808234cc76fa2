"""A script and the modules of its own that it imports, read as one."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial, reduce

from msgspec.structs import replace

from autotune.model.evidence import RUN, Fact
from autotune.model.scanned import ConsumerCall, WrittenValue
from autotune.pycode.script_view import ScriptView
from autotune.pycode.work_budget import Work
from autotune.scan import (
    attention_dropout,
    bool_options,
    default_learning_rates,
    local_rank,
    missing_modules,
    model_code,
    removed_names,
    run_words,
)
from autotune.scan.configs import written_values
from autotune.scan.library import ANYTHING, Library
from autotune.scan.program import RunProgram
from autotune.scan.read_script import ScannedScript, find_training, read_view
from autotune.scan.script.run_training import RunTraining
from autotune.scan.script.training_loops import TrainingStep, forward_call
from autotune.syntax.python import Source, last_name

WHOLE_RUN = [
    removed_names.facts,
    local_rank.facts,
    bool_options.facts,
    default_learning_rates.facts,
    attention_dropout.facts,
]
"""Detectors that look at all files of a run together."""

NOTHING = (False, "off")
"""Values of facts that a module cannot state: the script that imports it may do otherwise."""


def read_whole(
    library: Library,
    source: Source,
    name: str,
    flags: Mapping[str, WrittenValue] | None,
    *,
    is_open: bool,
    beside: str = "",
    configs: Iterable[str] = (),
) -> tuple[ScannedScript, tuple[str, ...]] | None:
    """The script with what its modules add, and the files of both, itself first; None when it cannot be read.

    A script that trains nothing is alone, and so is a module that only defines things: no run starts there. Where the
    script calls a function of a module, what the function does counts, with what the script passes, and a loop in it is
    the script's own. Paths are seen from the file `beside`; `configs` are what the command names.
    """
    program = RunProgram(library, beside or name, _config_values(library, configs))
    view = program.start(source, name, flags, is_open=is_open)
    alone = _read(library, program.alone(view), RunTraining()) if view is not None else None
    if view is None or alone is None:
        return None
    if flags is None and not (_starts(source.tree) and (alone.trains or alone.parses or alone.called)):
        return alone, (name,)
    views = program.modules(view)
    if not views:
        own = {name: library.worked(name, partial(_training, view, RunTraining()))}
        words = _words(library, program, [view], (name, *configs))
        return replace(alone, facts=(*alone.facts, *_whole_facts(library, [view], own, words))), (name,)
    run = RunTraining()
    steps = {one.file: library.worked(one.file, partial(_training, one, run)) for one in (view, *views)}
    modules = [module for one in reversed(views) if (module := _read(library, one, run, steps[one.file])) is not None]
    script = _read(library, view, run, steps[name])
    if script is None:
        return None
    if not (script.trains or script.parses or flags is not None):
        return script, (name,)
    whole = reduce(join_module, reversed(modules), script)
    words = _words(library, program, [view, *views], (name, *configs))
    whole = replace(whole, facts=(*whole.facts, *_whole_facts(library, [view, *views], steps, words)))
    return whole, tuple(dict.fromkeys((name, *_files(whole, modules))))


def _words(
    library: Library, program: RunProgram, views: Sequence[ScriptView], names: Iterable[str]
) -> Mapping[str, bytes] | None:
    """What is written in all files of a run, those of which only the words are read among them; None where there are
    more."""
    used = program.all_files()
    return (
        None
        if used is None
        else {one: library.files[one].data for one in (*names, *(each.file for each in views), *used)}
    )


def _whole_facts(
    library: Library,
    views: Sequence[ScriptView],
    steps: Mapping[str, tuple[TrainingStep, ...] | None],
    files: Mapping[str, bytes] | None,
) -> Iterator[Fact]:
    """What the words of all files say, of a run that trains in a loop of its own, and what its models compute; nothing
    of words where some `files` are not known."""
    found = [(view, one) for view in views for one in steps.get(view.file) or ()]
    loops = [(view, one) for view, one in found if not one.is_hook]
    if files is None:
        pass
    elif loops:
        view, step = loops[0]
        others = _of_no_names(library, run_words.setting_files(library.root))
        forward = forward_call(view, step)
        near = [files[one.file] for one in views]
        yield from run_words.facts(files, near, others, view.place(forward or step.backward or step.node))
    elif found:
        view, step = found[0]
        others = _of_no_names(library, run_words.setting_files(library.root))
        made = (one.place(call) for one in views for call in one.index.called.get("Trainer", ())[:1])
        yield from run_words.lightning_facts(files, others, next(made, view.place(step.node)))
    if files is not None:
        yield from run_words.text_facts(files)
    yield from missing_modules.facts(library, views)
    detectors = ([model_code.facts] if any(steps.values()) else []) + WHOLE_RUN
    for detect in detectors:
        yield from library.worked(views[0].file, partial(_detected, detect, views)) or ()


def _detected(
    detect: Callable[[Sequence[ScriptView]], Iterator[Fact]], views: Sequence[ScriptView], work: Work
) -> tuple[Fact, ...]:
    return tuple(detect(views))


def _of_no_names(library: Library, texts: Iterable[bytes]) -> Iterator[bytes]:
    """Texts of all files there are: what depends on them may change with a file that nobody has looked for yet."""
    library.note_asked((ANYTHING,))
    yield from texts


def _starts(tree: ast.Module) -> bool:
    """Whether running the file does something: a loop, a call or a main guard at its top."""
    return any(
        isinstance(node, ast.For | ast.AsyncFor | ast.While | ast.With)
        or (isinstance(node, ast.Expr) and isinstance(node.value, ast.Call))
        or (isinstance(node, ast.If) and "__name__" in map(last_name, ast.walk(node.test)))
        for node in tree.body
    )


def _config_values(library: Library, configs: Iterable[str]) -> dict[str, WrittenValue]:
    """What configs give, by dotted key; of one that two give, the later counts."""
    documents = ((name, document) for name in configs if (document := library.document(name)) is not None)
    found = (library.attempt(name, partial(written_values, document, name)) for name, document in documents)
    return {key: given for each in found if each is not None for key, given in each.items()}


def _training(view: ScriptView, run: RunTraining, work: Work) -> tuple[TrainingStep, ...]:
    """The steps of a file, found with the work that all indexes of the run spend."""
    return find_training(view, run)


def _read(
    library: Library, view: ScriptView, run: RunTraining, steps: tuple[TrainingStep, ...] | None = None
) -> ScannedScript | None:
    """What a file says; what trains in it is known to the files that are read after it."""
    script = library.worked(view.file, lambda work: read_view(view, run, steps))
    for entry in script.entries if script is not None else ():
        run.entry_points.setdefault(entry.node, []).append(entry)
    return script


def _files(whole: ScannedScript, modules: Iterable[ScannedScript]) -> Iterator[str]:
    """The modules that do something, and the files in which a person finds what calls are given."""
    yield from sorted(module.file for module in modules if module.calls or module.trains)
    for call in whole.calls:
        yield from sorted(given.location.file for given in call.arguments.values())


def first_of_each(facts: Iterable[Fact]) -> tuple[Fact, ...]:
    """One fact of each name and subject."""
    found: dict[tuple[str, str], Fact] = {}
    for fact in facts:
        found.setdefault((fact.subject, fact.name), fact)
    return tuple(found.values())


def join_module(script: ScannedScript, module: ScannedScript) -> ScannedScript:
    """What a module adds: calls for which the script has none of its own, and what it certainly does; nothing of a
    loader that is another than the script's."""
    if not (module.calls or module.trains):
        return replace(script, options={**module.options, **script.options})
    own = {_call_identity(call) for call in script.calls}
    calls = tuple(call for call in module.calls if _call_identity(call) not in own)
    others = {call.subject for call in script.calls} & {call.subject for call in module.calls} - {RUN}
    facts = (fact for fact in module.facts if fact.value not in NOTHING and fact.subject not in others)
    return replace(
        script,
        calls=(*script.calls, *calls),
        facts=first_of_each([*script.facts, *facts]),
        parses=tuple(dict.fromkeys([*script.parses, *module.parses])),
        options={**module.options, **script.options},
        stored={**module.stored, **script.stored},
        trains=script.trains or module.trains,
    )


def _call_identity(call: ConsumerCall) -> tuple[str, str, str]:
    """What a script has one of: a training loader, a TrainingArguments, a switch of torch."""
    return call.dialect, call.subject, call.name if call.subject == RUN else ""
