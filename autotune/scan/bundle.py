"""What belongs together: a script, the configs that it or its command names, and the command that starts it.

A command takes the script and the configs that it names into its bundle. Scripts and configs that no command names are
bundles of their own; a file that trains nothing is none.
"""

from __future__ import annotations

import ast
import os
import posixpath
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set
from functools import partial
from itertools import takewhile
from pathlib import PurePosixPath
from typing import TypeVar

from msgspec import Struct
from msgspec.structs import replace

from autotune.catalogue.coercion import WORDS
from autotune.catalogue.dialects import Version, is_own, methods, readings, started
from autotune.catalogue.dialects import dialects as known_dialects
from autotune.catalogue.frameworks import frameworks
from autotune.model.evidence import RUN, Fact, Location, Setting
from autotune.model.scanned import Bundle, ConsumerCall, ScanNote, WrittenValue
from autotune.model.source import NOTEBOOK
from autotune.scan import (
    arguments,
    config_facts,
    default_learning_rates,
    environment,
    jobs,
    least_memory,
    local_rank,
    missing_scripts,
    pattern_facts,
    removed_names,
)
from autotune.scan.configs import read_config, written_values
from autotune.scan.constants import read_constants
from autotune.scan.files import DATA
from autotune.scan.hydra import hydra_calls
from autotune.scan.inherited_configs import read_inherited
from autotune.scan.kept_bundles import KeptScan
from autotune.scan.launch import (
    CONFIGS,
    Launch,
    dialect_of,
    dialect_of_program,
    dialect_of_started,
    flags_call,
    launcher_call,
    launches,
    replaced,
)
from autotune.scan.library import Library
from autotune.scan.modules import first_of_each, read_whole
from autotune.scan.ranges import Range
from autotune.scan.read_script import read_script
from autotune.scan.self_tests import is_self_test
from autotune.scan.settings import settings_of
from autotune.scan.yacs_defaults import DIALECT as YACS
from autotune.scan.yacs_defaults import MADE, defaults_of, read_defaults

LAST = ("diffusers", "hydra", "yacs", "project", "raw", "deepspeed", "accelerate_config")
"""What decides less of a run than any trainer framework, in this order; other dialects decide more."""

TRAIN = "loader#train"

Begin = TypeVar("Begin", Launch, str)
"""With what a bundle begins: a command, or a file that no command names."""

MAX_CONFIGS = 20
"""Configs that one bundle follows."""

MAX_LAUNCHES = 100
"""Commands of one shell script that are followed: each is a run, for which its script is read and all rules asked."""

FIRST = 8
"""Bundles that are read one after another before it is asked whether other processes shall read ahead."""

ALIKE, ALL_OF_ONE = 4, 24
"""Commands that start one script with the same flags, whatever their values, and all that start it."""


class TopImports(Struct, frozen=True):
    """What a script imports at its top: `names` as written; whether one is relative, and whether it sets sys.path."""

    names: tuple[str, ...]
    has_relative: bool
    sets_path: bool


class BundleFiles(Struct, frozen=True):
    """What a bundle is made of: `calls` in the order in which they win, command before config before script.

    `imports` are those of the first file, where it is a script.
    """

    files: tuple[str, ...]
    calls: tuple[ConsumerCall, ...]
    facts: tuple[Fact, ...] = ()
    launches: tuple[Launch, ...] = ()
    imports: TopImports | None = None


Make = Callable[[Library, Begin], BundleFiles | None]

Progress = Callable[[str, int, int], object]
"""Is told the file that is read next, how many are done, and of how many."""


def no_progress(file: str, done: int, total: int) -> None:
    """Where nobody waits."""


class TrainingEntry(Struct, frozen=True):
    """A script with its modules; `parses` are the dialects whose keys its command line takes, `options` its own.

    `stored` is what the script sets on what its parser filled, whatever the command line says.
    """

    files: tuple[str, ...]
    calls: tuple[ConsumerCall, ...]
    facts: tuple[Fact, ...]
    parses: tuple[str, ...]
    options: Mapping[str, WrittenValue]
    stored: Mapping[str, WrittenValue]


def gather(
    library: Library,
    named: Set[str] = frozenset(),
    kept: KeptScan | None = None,
    progress: Progress = no_progress,
) -> tuple[BundleFiles, ...]:
    """The parts of every bundle: of commands first, then of scripts with the configs that they take, then of other
    scripts, then of other configs, each in the order of names. `named` are the files that the user named, `kept` is
    what earlier scans have found."""
    commands = [launch for name in library.with_commands() for launch in _launches(library, name)]
    commands = _without_alike(library, commands, named)
    commands += _starting(library, named, {launch.file for launch in commands})
    done, found = 0, list[BundleFiles]()

    def made(begins: Sequence[tuple[str, Begin]], make: Make[Begin], num_left: int) -> Iterator[BundleFiles]:
        nonlocal done
        is_ahead = False
        for place, (file, begin) in enumerate(begins):
            if kept is not None and not is_ahead and place % FIRST == FIRST - 1:
                rest = [(one, (make.__name__, each), _work(library, one, make, each)) for one, each in begins[place:]]
                is_ahead = kept.read_ahead(rest)
            progress(file, done, done + len(begins) - place + num_left)
            parts = _begun(library, kept, file, make, begin)
            done += 1
            yield from [parts] if parts is not None else []

    def left(*syntaxes: str) -> list[str]:
        return sorted(name for syntax in syntaxes for name in library.named(syntax) if name not in taken)

    taken: set[str] = set()
    found += made([(launch.file, launch) for launch in commands], of_launch, len(left("python", *DATA)))
    taken |= {name for parts in found for name in _taken(parts)}
    pairs = list(_pairs(library, named, taken))
    found += made([(launch.file, launch) for launch in pairs], of_launch, len(left("python", *DATA)))
    taken |= {name for parts in found for name in _taken(parts)}
    for make, syntaxes, later in ((_of_script, ("python",), DATA), (_of_config, DATA, ())):
        alone = list(made([(name, name) for name in left(*syntaxes)], make, len(left(*later))))
        found += _mains(alone)
        taken |= {name for parts in alone for name in parts.files}
    return tuple(found)


def _taken(parts: BundleFiles) -> Iterator[str]:
    """The files that are no bundles of their own; a notebook that starts a script may train beside it."""
    starting = (one for one in parts.launches if one.script != posixpath.basename(one.file))
    notebooks = {one.file for one in starting if one.file.endswith(NOTEBOOK)}
    yield from (name for name in parts.files if name not in notebooks)


def _begun(library: Library, kept: KeptScan | None, name: str, make: Make[Begin], begin: Begin) -> BundleFiles | None:
    """The bundle that `make` finds to begin with the file `name`; that of an earlier scan where no file that it looked
    for has changed since."""
    work = _work(library, name, make, begin)
    return work() if kept is None else kept.bundle(name, (make.__name__, begin), work, BundleFiles)


def _work(library: Library, name: str, make: Make[Begin], begin: Begin) -> Callable[[], BundleFiles | None]:
    return partial(library.begun, name, partial(make, library, begin))


def _without_alike(library: Library, commands: Sequence[Launch], named: Set[str]) -> list[Launch]:
    """The commands without those that start a script in the same way as ALIKE before them, with the same flags and as
    many configs, or as ALL_OF_ONE others: a benchmark has hundreds. Those of files that the user named stay."""
    kept: list[Launch] = []
    alike, of_one, left_out = Counter[object](), Counter[object](), Counter[str]()
    for launch in commands:
        started = launch.seen(launch.script or launch.module or "")
        way = started, frozenset(launch.flags), frozenset(launch.own), len(launch.config_files)
        if launch.file not in named and (alike[way] >= ALIKE or of_one[started] >= ALL_OF_ONE):
            left_out[started] += 1
            continue
        alike[way] += 1
        of_one[started] += 1
        kept.append(launch)
    for started, number in left_out.items():
        why = f"{number} more commands start it; only the first ones of each kind are read unless their file is named"
        library.notes.append(ScanNote(started, why))
    return kept


def _starting(library: Library, named: Set[str], known: Set[str]) -> Iterator[Launch]:
    """The commands of other launch scripts of the project that start a script which the user named, with one of the
    configs that they named, if any."""
    scripts = {name for name in library.named("python") if name in named}
    configs = {name for syntax in DATA for name in library.named(syntax) if name in named}
    for name in library.beside(sorted(scripts), "shell") if scripts else ():
        for launch in _launches(library, name) if name not in known else ():
            before = set(library.files)
            given = {library.find(launch.seen(one), name, DATA, is_wanted=True) for one in launch.config_files}
            if script_name(library, launch) in scripts and (not configs or given & configs):
                yield launch
            else:
                library.set_aside(library.files.keys() - before)


def _pairs(library: Library, named: Set[str], taken: Set[str]) -> Iterator[Launch]:
    """The scripts that no command starts with configs that none names, as if one did, whose flags are not known.

    What the user names together belongs together. Of the other configs, one belongs to the only script near it that
    takes files of its kind.
    """
    scripts = [name for name in library.named("python") if name not in taken]
    data = [name for syntax in DATA for name in library.named(syntax) if name not in taken]
    ours, theirs = [name for name in scripts if name in named], [name for name in data if name in named]
    if len(ours) == 1 and theirs:
        yield _paired(ours[0], theirs)
        return
    takers = {dialect: _holding(library, scripts, words) for dialect, words in _config_readers().items()}
    for name in data if any(takers.values()) else ():
        config = _config(library, name)
        near = takers.get(config.dialect, []) if config is not None else []
        most = max((_common(one, name) for one in near), default=0)
        nearest = [one for one in near if _common(one, name) == most]
        if len(nearest) == 1:
            yield _paired(nearest[0], [name])


def _config_readers() -> Mapping[str, Sequence[str]]:
    """What a script has that takes configs of a dialect, by the dialect."""
    return {dialect: names for one in frameworks().values() for dialect, names in one.config_readers.items()}


def _holding(library: Library, scripts: Sequence[str], words: Sequence[str]) -> list[str]:
    pattern = re.compile(rf"\b(?:{'|'.join(map(re.escape, words))})\b".encode())
    return [name for name in scripts if pattern.search(library.files[name].data)]


def _paired(script: str, configs: Sequence[str]) -> Launch:
    beside = posixpath.dirname(script) or "."
    names = [posixpath.relpath(one, beside) for one in (script, *configs)]
    return Launch(script, 1, "python", names[0], None, {}, tuple(names[1:]), None, {}, is_open=True)


def _common(one: str, other: str) -> int:
    """The folders that two files share."""
    return len(list(takewhile(lambda pair: pair[0] == pair[1], zip(one.split("/"), other.split("/"), strict=False))))


def bundle(
    parts: BundleFiles,
    library: Library,
    versions: Mapping[str, Version],
    software: Iterable[Fact],
    ranges: Mapping[str, Range] | None = None,
) -> Bundle:
    """The Bundle of `parts`, whose packages have these versions or ranges; `software` are facts about the versions."""
    settings = settings_of(parts.calls, versions)
    told = tuple(pattern_facts.facts(parts.calls))
    configured = tuple(config_facts.facts(parts.calls, settings, parts.launches))
    facts = [
        *_told_of_cuda(told),
        *parts.facts,
        _framework(parts.calls),
        *_train_loader(settings, parts.facts),
        *arguments.facts(parts.calls, versions, ranges or {}, _libraries(parts)),
        *local_rank.refused(parts.launches, parts.facts, versions, ranges or {}),
        *default_learning_rates.ignored(parts.facts, settings),
        *removed_names.release_facts(parts.facts, versions, ranges),
        *(arguments.compute_loss_facts(versions, ranges or {}) if _has_compute_loss(parts.facts) else ()),
        *configured,
        *_least_memory(parts, library, settings, configured),
        *told,
        *environment.facts(parts.launches, is_spread=jobs.is_spread(parts.launches, library)),
        *jobs.facts(parts.launches, library),
        *(jobs.cards_beside(parts.files[0], library) if _needs_cards(parts) else ()),
        *software,
    ]
    return Bundle(
        name=parts.files[0],
        files=parts.files,
        dialects=tuple(dict.fromkeys(call.dialect for call in parts.calls)),
        facts=first_of_each(facts),
        settings=settings,
        ignored=tuple(one for name in parts.files for one in library.ignored.get(name, ())),
        calls=parts.calls,
        is_module=(home := _home(library, parts.files[0], parts.imports)) is not None,
        home=home or "",
    )


def _libraries(parts: BundleFiles) -> frozenset[str]:
    """What the script of a run imports, as far as its top says."""
    return frozenset(name.partition(".")[0] for name in (parts.imports.names if parts.imports is not None else ()))


def _least_memory(
    parts: BundleFiles, library: Library, settings: Sequence[Setting], configured: Sequence[Fact]
) -> Iterator[Fact]:
    python = [library.files[name].data for name in parts.files if name in library.files and name.endswith(".py")]
    named = {one.name: one for one in settings if one.subject == RUN}
    told = {fact.name: fact.value for fact in configured}
    yield from least_memory.facts(parts.calls, named, parts.launches, told, python)


def _needs_cards(parts: BundleFiles) -> bool:
    """Whether the GPUs named in batch scripts beside a script matter to it: no command starts it, and it sets no lower
    precision."""
    return not parts.launches and any(fact.name == "code.names_no_lower_precision" for fact in parts.facts)


def _has_compute_loss(facts: Iterable[Fact]) -> bool:
    return any(fact.name == "code.loss_takes_no_num_items" for fact in facts)


def _home(library: Library, name: str, imports: TopImports | None) -> str | None:
    """The folder from which a script of a package is started with -m: what it imports from its own package is found
    only there. "" where relative imports do not say which folder that is, None for any other script."""
    if imports is None:
        return None
    if imports.has_relative:
        return ""
    tops = {name.partition(".")[0] for name in imports.names}
    folders = PurePosixPath(name).parts[:-1]
    own = next((at for at, folder in enumerate(folders) if folder in tops), None)
    if own is None or imports.sets_path or _is_beside(library, name, folders[own]):
        return None
    if not _is_package(library, folders[: own + 1], imports.names):
        return None  # a folder that is called like a library
    return posixpath.join(".", *folders[:own])


def _top_imports(library: Library, name: str) -> TopImports | None:
    """What a script imports at its top; None for another file."""
    file = library.files.get(name)  # None for a command line
    source = library.python(name) if file is not None and file.syntax == "python" else None
    if file is None or source is None:
        return None
    froms = [one for one in source.tree.body if isinstance(one, ast.ImportFrom)]
    names = [one.module or "" for one in froms]
    names += [each.name for one in source.tree.body if isinstance(one, ast.Import) for each in one.names]
    nodes = ast.walk(source.tree) if b"sys.path" in file.data else ()
    return TopImports(tuple(names), any(one.level for one in froms), any(map(_is_path, nodes)))


def _is_path(node: ast.AST) -> bool:
    """`sys.path`."""
    base = node.value if isinstance(node, ast.Attribute) and node.attr == "path" else None
    return isinstance(base, ast.Name) and base.id == "sys"


def _is_package(library: Library, folders: Sequence[str], names: Iterable[str]) -> bool:
    """Whether a folder holds what scripts import from it by its name, or says that it is a package."""
    home, package = posixpath.join(*folders[:-1], ""), folders[-1]
    inner = [f"{home}{name.replace('.', '/')}" for name in names if name.partition(".")[0] == package]
    wanted = [f"{home}{package}/__init__.py", *(f"{one}.py" for one in inner if one != f"{home}{package}")]
    # Path.is_file raises an error for a name that the system does not allow.
    return any(os.path.isfile(library.root / one) for one in wanted)  # noqa: PTH113


def _is_beside(library: Library, name: str, package: str) -> bool:
    """Whether a script that is started by its path finds a package beside it."""
    beside = posixpath.join(posixpath.dirname(name), package)
    return any(one == f"{beside}.py" or one.startswith(f"{beside}/") for one in library.files)


def _launches(library: Library, name: str) -> tuple[Launch, ...]:
    """The commands of a shell script that start a training, up to MAX_LAUNCHES."""
    script = library.shell(name)
    found = library.attempt(name, partial(launches, script, name)) if script is not None else None
    if found is not None and len(found) > MAX_LAUNCHES:
        where = f"{name}:{found[MAX_LAUNCHES].line}"
        library.notes.append(
            ScanNote(where, f"not read beyond this point: more than {MAX_LAUNCHES} commands start a training")
        )
    return found[:MAX_LAUNCHES] if found is not None else ()


def of_launch(library: Library, launch: Launch) -> BundleFiles | None:
    """The bundle of a command; None when neither it nor what it names says anything about training. Of one that starts
    a missing script that is all there is to say: what it asks for trains nothing."""
    if (do_train := launch.flags.get("do_train")) and WORDS.get(str(do_train.value).lower()) is False:
        return None
    name = script_name(library, launch)
    if name is None and (lacking := missing_scripts.fact(library, launch)) is not None:
        return BundleFiles((launch.file,), (), (lacking,))
    paths = [launch.seen(each) for each in launch.config_files]
    found = [library.find(each, launch.file, (*DATA, "python"), is_wanted=True) for each in paths]
    named = list(dict.fromkeys(one for one in found if one is not None and one != name))
    script = _script(library, name, launch, named) if name is not None else None
    configs = [one for one in _configs(library, named) if script is None or _is_consumed(one, script)]
    configs = [_under(library, launch, one) for one in configs]
    configs += [] if configs else _of_program(library, launch, named, script)
    configs += hydra_calls(library, name, launch.flags) if name is not None else []
    calls = [*_flags(launch, script, configs), *configs, *(script.calls if script is not None else ())]
    if script is None and not calls:
        return None
    calls += _own_options(launch, script) if script is not None else ()
    calls = _with_named(library, calls)
    first = script.files if script is not None else ()
    files = (*first, *(call.location.file for call in calls), *_read_by(script, named), launch.file)
    files = tuple(dict.fromkeys(files))
    facts = script.facts if script is not None else ()
    return BundleFiles(files, tuple(calls), facts, (launch,), _top_imports(library, files[0]))


def _of_script(library: Library, name: str) -> BundleFiles | None:
    """The bundle of a script that no command names; a module that tests itself is none."""
    source = library.python(name)
    if source is None or is_self_test(library, name, source):
        return None
    script = _script(library, name, None)
    if script is None or not (script.calls or script.facts):
        return None
    calls = _with_named(library, script.calls)
    files = (*script.files, *(call.location.file for call in calls))
    imports = _top_imports(library, name)
    return BundleFiles(tuple(dict.fromkeys(files)), tuple(calls), script.facts, imports=imports)


def _of_config(library: Library, name: str) -> BundleFiles | None:
    """The bundle of a config that no command and no script names."""
    calls = _with_named(library, _configs(library, [name]))
    return BundleFiles(tuple(dict.fromkeys(call.location.file for call in calls)), tuple(calls)) if calls else None


def _read_by(script: TrainingEntry | None, configs: Sequence[str]) -> Iterator[str]:
    """The configs that a script reads itself."""
    given = {
        one.location.file for call in (script.calls if script is not None else ()) for one in call.arguments.values()
    }
    yield from (name for name in configs if name in given)


def _mains(found: Sequence[BundleFiles]) -> list[BundleFiles]:
    """Without the bundles of files that another one has taken; of files that name each other, the first has them."""
    inner = {name for parts in found for name in parts.files[1:]}
    mains = [parts for parts in found if parts.files[0] not in inner or _starts_itself(parts)]
    taken = {name for parts in mains for name in parts.files}
    for parts in found:
        if parts.files[0] not in taken:
            mains.append(parts)
            taken |= set(parts.files)
    return mains


def _starts_itself(parts: BundleFiles) -> bool:
    return any(fact.name == "code.has_main_guard" and fact.value for fact in parts.facts)


def script_name(library: Library, launch: Launch) -> str | None:
    """The file of the script or module that a command starts, whatever it holds: others may train for it."""
    if launch.script:
        return library.find(launch.seen(launch.script), launch.file, ("python",), is_wanted=True)
    path = launch.module.replace(".", "/") if launch.module else ""
    names = [f"{folder}{path}{end}" for folder in ("", "src/") for end in (".py", "/__main__.py")] if path else []
    found = (library.find(launch.seen(name), launch.file, ("python",), is_wanted=True) for name in names)
    return next((name for name in found if name is not None), None)


def _script(library: Library, name: str, launch: Launch | None, configs: Sequence[str] = ()) -> TrainingEntry | None:
    """A script that trains, with what the modules beside it add; None for another. `launch` starts it, if known, with
    these configs."""
    source = library.python(name)
    if source is None:
        return None
    flags, is_open = (launch.flags, launch.is_open) if launch is not None else (None, True)
    constants, bases = _constants(library, name)
    if constants is not None:
        script = library.worked(name, lambda work: read_script(source, name, flags, is_open=is_open, work=work))
        if script is None:
            return None
        files = tuple(dict.fromkeys((name, *bases)))
        return TrainingEntry(files, (constants, *script.calls), script.facts, (constants.dialect,), {}, {})
    beside = launch.file if launch is not None and not launch.folder else name
    data = [one for one in configs if library.files[one].syntax in DATA]
    read = read_whole(library, source, name, flags, is_open=is_open, beside=beside, configs=data)
    if read is None:
        return None
    whole, files = read
    ends = [(one.name, one.parsed) for one in frameworks().values() if one.parsed]
    dialects = tuple(dialect for dialect, end in ends if any(one.endswith(end) for one in whole.parses))
    # What a parser would fill is not known without a command line, but that it takes these arguments is.
    parsed = [ConsumerCall(one, "", RUN, {}, Location(name, 1), is_open=True) for one in dialects if flags is None]
    if not (whole.trains or whole.parses or any(map(_is_setup, whole.calls))):
        return None
    return TrainingEntry(files, (*whole.calls, *parsed), whole.facts, dialects, whole.options, whole.stored)


def _of_program(
    library: Library, launch: Launch, files: Sequence[str], script: TrainingEntry | None
) -> list[ConsumerCall]:
    """The one config of a program, or of a script's parser, that is none by its own keys: what takes it says whose keys
    they are."""
    dialect = dialect_of_program(launch)
    if script is not None:
        dialect = next(iter(script.parses), None)
    others = [str(given.value) for key, given in launch.flags.items() if given.known and "config" not in key]
    data = [name for name in files if library.files[name].syntax in DATA]
    data = [name for name in data if not any(one.endswith(posixpath.basename(name)) for one in others)]
    if dialect is None or len(data) != 1 or library.files[data[0]].syntax not in _syntaxes(dialect):
        return []
    document = library.document(data[0])
    given = library.attempt(data[0], partial(written_values, document, data[0])) if document is not None else None
    return [ConsumerCall(dialect, "", RUN, given, Location(data[0], 1))] if given else []


def _syntaxes(dialect: str) -> tuple[str, ...]:
    return tuple(known_dialects()[dialect].get("syntaxes", ()))


def _is_consumed(config: ConsumerCall, script: TrainingEntry) -> bool:
    """Whether what a config says reaches a library as it is: keys of a TrainingArguments that the script makes; a loop
    of the script's own takes what it asks for, which is read where it does."""
    if not _is_parsed(config.dialect):
        return True
    return bool(script.parses) or any(_is_parsed(call.dialect) for call in script.calls)


def _is_parsed(dialect: str) -> bool:
    """Whether a parser fills the classes of a dialect from a command line."""
    return dialect in frameworks() and bool(frameworks()[dialect].parsed)


def _is_setup(call: ConsumerCall) -> bool:
    """Whether a call makes the arguments or the trainer of a run that another file starts, or starts it itself."""
    if call.dialect in methods().values():
        return True
    return call.dialect in frameworks() and bool(frameworks()[call.dialect].classes) and is_own(call.dialect, call.name)


def _own_options(launch: Launch, script: TrainingEntry) -> Iterator[ConsumerCall]:
    """Options of the script's own, beside the classes that its parser fills, that say a setting by default."""
    for dialect in script.parses:
        keys = {key for reading in readings(dialect, {}) for key in reading.keys}
        given = {key: option for key, option in script.options.items() if key in keys and option.known}
        yield ConsumerCall(dialect, "", RUN, given, Location(launch.file, launch.line))


def _flags(launch: Launch, script: TrainingEntry | None, configs: Sequence[ConsumerCall]) -> Iterator[ConsumerCall]:
    """The command's own arguments, where something takes them that is known; what the script sets afterwards counts."""
    if script is None:
        dialect = dialect_of(launch) or next((one.dialect for one in configs if _lends(one, launch)), None)
    else:
        read = (*script.parses, *(call.dialect for call in configs))
        dialect = dialect_of_started(launch) or next(iter(read), None)
    if dialect is not None:
        said, stored = flags_call(launch, dialect), script.stored if script is not None and script.parses else {}
        yield replace(said, arguments={**said.arguments, **stored})
    own = launcher_call(launch)
    if own is not None:
        yield own


def _lends(config: ConsumerCall, launch: Launch) -> bool:
    """Whether a command's flags are in the dialect of a config that it names, whatever the script is."""
    return config.dialect == "hydra" or config.dialect in started(launch.script or launch.module or "")


def _under(library: Library, launch: Launch, config: ConsumerCall) -> ConsumerCall:
    """A config with what the command that names it says in its place; what stands below such a key is not known."""
    how = known_dialects()[config.dialect].get("replaces")
    if how is None:
        return config
    given = replaced(launch, config.dialect)
    if how == "flags":
        config = _config(library, config.location.file, given) or config
    kept = {
        key: replace(one, value=None, known=False) if any(key.startswith(f"{above}.") for above in given) else one
        for key, one in config.arguments.items()
    }
    return replace(config, arguments={**kept, **given}, is_open=config.is_open or launch.is_open)


def _configs(library: Library, names: Iterable[str]) -> list[ConsumerCall]:
    """The configs among these files."""
    found = [call for name in dict.fromkeys(names) if (call := _config(library, name)) is not None]
    defaults = defaults_of(library) if any(call.dialect == YACS for call in found) else None
    return [*found, *([defaults] if defaults is not None and defaults not in found else [])]


def _config(library: Library, name: str, flags: Mapping[str, WrittenValue] | None = None) -> ConsumerCall | None:
    syntax = library.files[name].syntax
    if syntax == "python":
        return _constants(library, name)[0]
    document = library.document(name)
    return None if document is None else library.attempt(name, partial(read_config, document, name, syntax, flags))


def _constants(library: Library, name: str) -> tuple[ConsumerCall | None, tuple[str, ...]]:
    """The config that a Python file is, and the files that it inherits from."""
    source = library.python(name)
    if source is None:
        return None, ()
    if (inherited := read_inherited(library, name)) is not None:
        return inherited.call, inherited.files
    read = read_defaults if MADE.search(library.files[name].data) else read_constants
    return library.worked(name, partial(read, source, name)), ()


def _with_named(library: Library, calls: Sequence[ConsumerCall]) -> list[ConsumerCall]:
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


def _framework(calls: Sequence[ConsumerCall]) -> Fact:
    """run.framework: what decides most of the run; a loop of which no call is known is a raw one."""
    names = [known_dialects()[call.dialect]["frameworks"][0] for call in calls]
    rank = {name: place for place, name in enumerate((*frameworks(), *LAST))}
    return Fact("run.framework", RUN, min(names, key=lambda name: rank.get(name, -1), default="raw"))


def _told_of_cuda(told: Iterable[Fact]) -> Iterator[Fact]:
    """A configuration that keeps training on the CPU has the last word on what a script could do."""
    return (Fact("code.uses_cuda", RUN, False, one.places) for one in told if one.name == "config.trains_on_cpu")


def _train_loader(settings: Iterable[Setting], facts: Iterable[Fact]) -> Iterator[Fact]:
    """loader.is_train of the loader that a config or a Trainer sets up: no call in a script shows it."""
    stated = {fact.subject for fact in facts if fact.name == "loader.is_train"}
    if TRAIN not in stated and any(setting.subject == TRAIN for setting in settings):
        yield Fact("loader.is_train", TRAIN, True)
