"""What belongs together: a script, the configs that it or its command names, and the command that starts it.

A command takes the script and the configs that it names into its bundle. Scripts and configs that no command names are
bundles of their own; a file that trains nothing is none.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

from autotune.catalogue.dialects import Version, readings
from autotune.catalogue.dialects import dialects as known_dialects
from autotune.model.evidence import RUN, Fact, Location, Setting
from autotune.model.scanned import Bundle, Call, Given, Note
from autotune.scan import arguments, environment, relations, stated
from autotune.scan.configs import read_config
from autotune.scan.constants import read_constants
from autotune.scan.files import DATA
from autotune.scan.hydra import hydra_calls
from autotune.scan.launch import CONFIGS, Launch, dialect_of, flags_call, launcher_call, launches
from autotune.scan.library import Library
from autotune.scan.modules import first, read_whole
from autotune.scan.python import read_script
from autotune.scan.ranges import Range
from autotune.scan.settings import settings_of
from autotune.scan.values import WORDS

COMMON = ("trl", "hf_trainer", "lightning", "fabric", "accelerate", "hydra", "raw", "deepspeed", "accelerate_config")
"""Frameworks from the one that decides most of a run to the one that decides least; others decide more than these."""

PARSED = {"hf_trainer": "TrainingArguments", "trl": "Config"}
"""Dialects of classes that a parser fills from a command line, by the end of their names."""

TRAIN = "loader#train"

MAX_CONFIGS = 20
"""Configs that one bundle follows."""

MAX_LAUNCHES = 100
"""Commands of one shell script that are followed: each is a run, for which its script is read and all rules asked."""


@dataclass(frozen=True, slots=True)
class Parts:
    """What a bundle is made of: `calls` in the order in which they win, command before config before script."""

    files: tuple[str, ...]
    calls: tuple[Call, ...]
    facts: tuple[Fact, ...] = ()
    launches: tuple[Launch, ...] = ()


@dataclass(frozen=True, slots=True)
class Training:
    """A script with its modules; `parses` are the dialects whose keys its command line takes, `options` its own."""

    files: tuple[str, ...]
    calls: tuple[Call, ...]
    facts: tuple[Fact, ...]
    parses: tuple[str, ...]
    options: Mapping[str, Given]


def gather(library: Library) -> tuple[Parts, ...]:
    """The parts of every bundle: of commands first, then of scripts, then of configs, each in the order of names."""
    commands = [launch for name in library.named("shell") for launch in _launches(library, name)]
    made = (library.begun(launch.file, partial(of_launch, library, launch)) for launch in commands)
    found = [parts for parts in made if parts is not None]
    taken = {name for parts in found for name in parts.files}
    for make, syntaxes in ((_of_script, ("python",)), (_of_config, DATA)):
        names = sorted(name for syntax in syntaxes for name in library.named(syntax) if name not in taken)
        made = (library.begun(name, partial(make, library, name)) for name in names)
        alone = [parts for parts in made if parts is not None]
        found += _mains(alone)
        taken |= {name for parts in alone for name in parts.files}
    return tuple(found)


def bundle(
    parts: Parts,
    library: Library,
    versions: Mapping[str, Version],
    software: Iterable[Fact],
    ranges: Mapping[str, Range] | None = None,
) -> Bundle:
    """The Bundle of `parts`, whose packages have these versions or ranges; `software` are facts about the versions."""
    settings = settings_of(parts.calls, versions)
    told = tuple(stated.facts(parts.calls))
    facts = [
        *_told_of_cuda(told),
        *parts.facts,
        _framework(parts.calls),
        *_train_loader(settings, parts.facts),
        *arguments.facts(parts.calls, versions, ranges or {}),
        *relations.facts(parts.calls, settings, parts.launches),
        *told,
        *environment.facts(parts.launches),
        *software,
    ]
    return Bundle(
        name=parts.files[0],
        files=parts.files,
        dialects=tuple(dict.fromkeys(call.dialect for call in parts.calls)),
        facts=first(facts),
        settings=settings,
        ignored=tuple(one for name in parts.files for one in library.ignored.get(name, ())),
        calls=parts.calls,
    )


def _launches(library: Library, name: str) -> tuple[Launch, ...]:
    """The commands of a shell script that start a training, up to MAX_LAUNCHES."""
    script = library.shell(name)
    found = library.attempt(name, partial(launches, script, name)) if script is not None else None
    if found is not None and len(found) > MAX_LAUNCHES:
        where = f"{name}:{found[MAX_LAUNCHES].line}"
        library.notes.append(Note(where, f"not read from here on: more than {MAX_LAUNCHES} commands start a training"))
    return found[:MAX_LAUNCHES] if found is not None else ()


def of_launch(library: Library, launch: Launch) -> Parts | None:
    """The bundle of a command; None when neither it nor what it names says anything about training."""
    if (do_train := launch.flags.get("do_train")) and WORDS.get(str(do_train.value).lower()) is False:
        return None
    name = script_name(library, launch)
    script = _script(library, name, launch) if name is not None else None
    named = (library.find(each, launch.file, (*DATA, "python")) for each in launch.config_files)
    configs = _configs(library, [one for one in named if one is not None and one != name])
    configs += hydra_calls(library, name, launch.flags) if name is not None else []
    calls = [*_flags(launch, script, configs), *configs, *(script.calls if script is not None else ())]
    if script is None and not calls:
        return None
    calls += _own_options(launch, script) if script is not None else ()
    calls = _with_named(library, calls)
    first = script.files if script is not None else ()
    files = (*first, *(call.location.file for call in calls), launch.file)
    return Parts(tuple(dict.fromkeys(files)), tuple(calls), script.facts if script is not None else (), (launch,))


def _of_script(library: Library, name: str) -> Parts | None:
    """The bundle of a script that no command names."""
    script = _script(library, name, None)
    if script is None or not (script.calls or script.facts):
        return None
    calls = _with_named(library, script.calls)
    files = (*script.files, *(call.location.file for call in calls))
    return Parts(tuple(dict.fromkeys(files)), tuple(calls), script.facts)


def _of_config(library: Library, name: str) -> Parts | None:
    """The bundle of a config that no command and no script names."""
    calls = _with_named(library, _configs(library, [name]))
    return Parts(tuple(dict.fromkeys(call.location.file for call in calls)), tuple(calls)) if calls else None


def _mains(found: Sequence[Parts]) -> list[Parts]:
    """Without the bundles of files that another one has taken; of files that name each other, the first has them."""
    inner = {name for parts in found for name in parts.files[1:]}
    mains = [parts for parts in found if parts.files[0] not in inner or _starts_itself(parts)]
    taken = {name for parts in mains for name in parts.files}
    for parts in found:
        if parts.files[0] not in taken:
            mains.append(parts)
            taken |= set(parts.files)
    return mains


def _starts_itself(parts: Parts) -> bool:
    return any(fact.name == "code.has_main_guard" and fact.value for fact in parts.facts)


def script_name(library: Library, launch: Launch) -> str | None:
    """The file of the script or module that a command starts."""
    module = launch.module.replace(".", "/") + ".py" if launch.module else None
    named = launch.script or module
    return library.find(named, launch.file, ("python",)) if named else None


def _script(library: Library, name: str, launch: Launch | None) -> Training | None:
    """A script that trains, with what the modules beside it add; None for another. `launch` starts it, if known."""
    source = library.python(name)
    if source is None:
        return None
    flags, is_open = (launch.flags, launch.is_open) if launch is not None else (None, True)
    constants = _constants(library, name)
    if constants is not None:
        script = library.worked(name, lambda work: read_script(source, name, flags, is_open=is_open, work=work))
        if script is None:
            return None
        return Training((name,), (constants, *script.calls), script.facts, (constants.dialect,), {})
    read = read_whole(library, source, name, flags, is_open=is_open)
    if read is None:
        return None
    whole, files = read
    dialects = tuple(dialect for dialect, end in PARSED.items() if any(one.endswith(end) for one in whole.parses))
    # What a parser would fill is not known without a command line, but that it takes these arguments is.
    parsed = [Call(one, "", RUN, {}, Location(name, 1), is_open=True) for one in dialects if flags is None]
    if not (whole.trains or whole.parses):
        return None
    return Training(files, (*whole.calls, *parsed), whole.facts, dialects, whole.options)


def _own_options(launch: Launch, script: Training) -> Iterator[Call]:
    """Options of the script's own, beside the classes that its parser fills, that say a setting by default."""
    for dialect in script.parses:
        keys = {key for reading in readings(dialect, {}) for key in reading.keys}
        given = {key: option for key, option in script.options.items() if key in keys and option.known}
        yield Call(dialect, "", RUN, given, Location(launch.file, launch.line))


def _flags(launch: Launch, script: Training | None, configs: Sequence[Call]) -> Iterator[Call]:
    """The command's own arguments, where something takes them that is known."""
    if script is None:
        of_hydra = (call.dialect for call in configs if call.dialect == "hydra")
        dialect = dialect_of(launch) or next(of_hydra, None)
    else:
        dialect = next(iter((*script.parses, *(call.dialect for call in configs))), None)
    if dialect is not None:
        yield flags_call(launch, dialect)
    own = launcher_call(launch)
    if own is not None:
        yield own


def _configs(library: Library, names: Iterable[str]) -> list[Call]:
    """The configs among these files."""
    found = [_config(library, name) for name in dict.fromkeys(names)]
    return [call for call in found if call is not None]


def _config(library: Library, name: str) -> Call | None:
    syntax = library.files[name].syntax
    if syntax == "python":
        return _constants(library, name)
    document = library.document(name)
    return None if document is None else library.attempt(name, partial(read_config, document, name, syntax))


def _constants(library: Library, name: str) -> Call | None:
    source = library.python(name)
    return None if source is None else library.worked(name, partial(read_constants, source, name))


def _with_named(library: Library, calls: Sequence[Call]) -> list[Call]:
    """The calls, and behind them the configs that their arguments name: `deepspeed: zero3.json`."""
    found, seen = list(calls), {call.location.file for call in calls}
    for call in found:
        values = [one for one in call.arguments.values() if isinstance(one.value, str) and one.value.endswith(CONFIGS)]
        for given in values[:MAX_CONFIGS]:
            name = library.find(str(given.value), given.location.file, DATA)
            if name is not None and name not in seen and len(seen) < MAX_CONFIGS:
                seen.add(name)
                found += _configs(library, [name])
    return found


def _framework(calls: Sequence[Call]) -> Fact:
    """run.framework: what decides most of the run; a loop of which no call is known is a raw one."""
    names = [known_dialects()[call.dialect]["frameworks"][0] for call in calls]
    rank = {name: place for place, name in enumerate(COMMON)}
    return Fact("run.framework", RUN, min(names, key=lambda name: rank.get(name, -1), default="raw"))


def _told_of_cuda(told: Iterable[Fact]) -> Iterator[Fact]:
    """A configuration that keeps training on the CPU has the last word on what a script could do."""
    return (Fact("code.uses_cuda", RUN, False, one.places) for one in told if one.name == "config.trains_on_cpu")


def _train_loader(settings: Iterable[Setting], facts: Iterable[Fact]) -> Iterator[Fact]:
    """loader.is_train of the loader that a config or a Trainer sets up: no call in a script shows it."""
    stated = {fact.subject for fact in facts if fact.name == "loader.is_train"}
    if TRAIN not in stated and any(setting.subject == TRAIN for setting in settings):
        yield Fact("loader.is_train", TRAIN, True)
