"""A script and the modules of its own that it imports, read as one."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial, reduce

from autotune.model.evidence import RUN, Fact
from autotune.model.scanned import Call, Given
from autotune.scan.library import Library
from autotune.scan.python import Entry, Script, read_script
from autotune.syntax.python import Source

NOTHING = (False, "off")
"""Values of facts that a module cannot state: the script that imports it may do otherwise."""


def read_whole(
    library: Library, source: Source, name: str, flags: Mapping[str, Given] | None, *, is_open: bool
) -> tuple[Script, tuple[str, ...]] | None:
    """The script with what its modules add, and the files of both, itself first; None when it cannot be read.

    A script that trains nothing is alone.

    Where the script calls a function of a module, what the function does counts, and a loop in it is the script's own.
    """
    script = _read(library, source, name, flags, is_open, {})
    if script is None:
        return None
    names = _files(library, script)
    found = {file: _module(library, file, _called(script, module)) for file, module in names.items()}
    modules = {file: module for file, module in found.items() if module is not None and (module.calls or module.trains)}
    trained: dict[str, list[Entry]] = defaultdict(list)
    for file, module in modules.items():
        for entry in module.entries:
            trained[f"{names[file]}.{entry.name}"].append(entry)
    if trained:
        script = _read(library, source, name, flags, is_open, trained) or script
    if not (script.trains or script.parses or flags is not None):
        return script, (name,)
    return reduce(joined, modules.values(), script), (name, *modules)


def _read(
    library: Library,
    source: Source,
    name: str,
    flags: Mapping[str, Given] | None,
    is_open: bool,
    trained: Mapping[str, Sequence[Entry]],
) -> Script | None:
    read = partial(read_script, source, name, flags, is_open=is_open, trained=trained)
    return library.worked(name, lambda work: read(work=work))


def first(facts: Iterable[Fact]) -> tuple[Fact, ...]:
    """One fact of each name and subject."""
    found: dict[tuple[str, str], Fact] = {}
    for fact in facts:
        found.setdefault((fact.subject, fact.name), fact)
    return tuple(found.values())


def joined(script: Script, module: Script) -> Script:
    """What a module adds: calls for which the script has none of its own, and what it certainly does."""
    own = {_kind(call) for call in script.calls}
    calls = tuple(call for call in module.calls if _kind(call) not in own)
    facts = first([*script.facts, *(fact for fact in module.facts if fact.value not in NOTHING)])
    parses = tuple(dict.fromkeys([*script.parses, *module.parses]))
    trains = script.trains or module.trains
    return replace(script, calls=(*script.calls, *calls), facts=facts, parses=parses, trains=trains)


def _kind(call: Call) -> tuple[str, str, str]:
    """What a script has one of: a training loader, a TrainingArguments, a switch of torch."""
    return call.dialect, call.subject, call.name if call.subject == RUN else ""


def _module(library: Library, name: str, called: frozenset[str]) -> Script | None:
    """The module `name`, of which these functions are called; None when it cannot be read."""
    if (name, called) not in library.modules:
        source = library.python(name)
        read = partial(read_script, source, name, is_module=True, called=called) if source is not None else None
        library.modules[name, called] = library.worked(name, lambda work: read(work=work)) if read is not None else None
    return library.modules[name, called]


def _called(script: Script, module: str) -> frozenset[str]:
    """The functions of a module that the script calls."""
    parts = (name.rpartition(".") for name in script.called)
    return frozenset(function for owner, _, function in parts if owner == module)


def _files(library: Library, script: Script) -> dict[str, str]:
    """The files that the imports of a script mean: "trainer" is trainer.py beside it or in a folder above.

    With `from package import trainer`, the call of trainer.fit shows that trainer is a module.
    """
    found: dict[str, str] = {}
    for module in sorted({*script.imports, *(name.rpartition(".")[0] for name in script.called)}):
        name = module.lstrip(".")
        up = "../" * (len(module) - len(name) - 1)
        file = library.find(f"{up}{name.replace('.', '/')}.py", script.file, ("python",)) if name else None
        if file is not None and file != script.file:
            found.setdefault(file, module)
    return dict(sorted(found.items()))
