"""The files behind a command that a person typed: its script and configs, and the words themselves."""

from __future__ import annotations

import os
import posixpath
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path

from msgspec.structs import replace

from autotune.catalogue.dialects import Version
from autotune.errors import InternalError, UsageError
from autotune.invocation import Invocation, invoked, typed
from autotune.model.evidence import Location, Setting
from autotune.model.scanned import TYPED, Bundle, ConsumerCall, Pin, ScanNote, WrittenValue
from autotune.scan.bundle import BundleFiles, bundle, of_launch, script_name
from autotune.scan.declared import Declared
from autotune.scan.files import read_file
from autotune.scan.launch import CONFIGS, Launch, launches
from autotune.scan.library import Library
from autotune.scan.missing_keys import missing_settings
from autotune.scan.unset_statements import unset_settings
from autotune.syntax import shell


def scan_command(
    words: Sequence[str],
    *,
    cwd: Path,
    root: Path,
    versions: Mapping[str, Version],
    environ: Mapping[str, str] = os.environ,
    argv: Sequence[str] = (),
) -> Bundle | None:
    """What the files say that `words` name, seen from `cwd`; None when nothing can be read from them.

    `words` are a script and its arguments, a module, a launcher's command, or a shell with a script or a line to run.
    `argv` is what the training process of a run got: it says which command of a shell's script that was, and which
    configs it names where the script does not.
    Files of places are absolute, as a run names them, or TYPED; only files below `root` are read.
    """
    called = invoked(words, cwd, environ)
    if not called.words:
        return None
    real = Path(os.path.realpath(root))
    library = Library(real, {})
    source = _text(called, library)
    if source is None:
        return None
    text, name = source
    try:
        arguments = called.arguments if called.is_shell else None
        commands = _process_commands(launches(shell.read(text.encode(), name, arguments), name), argv)
    except UsageError:
        return None
    made = ((launch, library.begun(launch.file, partial(of_launch, library, launch))) for launch in commands)
    found = [(launch, parts) for launch, parts in made if parts is not None]
    whole = library.attempt(name, partial(_whole, *found[0], library, versions)) if len(found) == 1 else None
    if bug := next((note for note in library.notes if note.is_bug), None):
        raise InternalError(f"{bug.where}: {bug.why}")
    return _with_absolute_files(whole, real, _links(called)) if whole is not None else None


def _process_commands(commands: Sequence[Launch], argv: Sequence[str]) -> tuple[Launch, ...]:
    """The commands that may have made a process with this `argv`, with the configs that only `argv` names."""
    own = [one for one in commands if argv and _starts(one, argv[0])] or list(commands)
    said = tuple(word.rpartition("=")[2] for word in argv[1:] if word.endswith(CONFIGS))
    # Known words are read from the script; argv only supplies the words that the shell computed.
    return tuple(replace(one, config_files=(*one.config_files, *said)) if _is_open(one) else one for one in own)


def _starts(launch: Launch, script: str) -> bool:
    path = launch.script or f"{(launch.module or '').replace('.', '/')}.py"
    return posixpath.basename(path) == posixpath.basename(script)


def _is_open(launch: Launch) -> bool:
    return launch.is_open or any(not given.known for given in launch.flags.values())


def _whole(launch: Launch, parts: BundleFiles, library: Library, versions: Mapping[str, Version]) -> Bundle:
    """The bundle of a command, with the settings that nobody gives."""
    whole, script = bundle(parts, library, versions, ()), script_name(library, launch)
    whole = replace(whole, settings=(*whole.settings, *missing_settings(whole, versions)))
    more = unset_settings(whole, script, library, versions) if script is not None else ()
    return replace(whole, settings=(*whole.settings, *more))


def files_outside(
    words: Sequence[str], *, cwd: Path, root: Path, environ: Mapping[str, str] = os.environ
) -> tuple[Path, ...]:
    """The real paths of the script and of the configs that a command names which lie outside `root`: they are not
    read."""
    called, real = invoked(words, cwd, environ), Path(os.path.realpath(root))
    named = [called.cwd / word.rpartition("=")[2] for word in called.arguments if word.endswith(CONFIGS)]
    files = [Path(os.path.realpath(file)) for file in (called.file, *named) if file is not None and file.is_file()]
    return tuple(dict.fromkeys(file for file in files if not file.is_relative_to(real)))


def project_pins(found: Bundle | None, *, cwd: Path, root: Path) -> tuple[Pin, ...]:
    """What the project's files bound of packages, seen from the script, or from `cwd` where no bundle is known."""
    real, here = Path(os.path.realpath(root)), Path(os.path.realpath(cwd))
    if found is not None:
        return Declared(real).pins(found.files[0])
    if not here.is_relative_to(real):
        return ()
    return Declared(real).pins(posixpath.normpath(f"{here.relative_to(real).as_posix()}/{TYPED}"))


def _links(called: Invocation) -> Mapping[str, str]:
    """The name that a run has for its script, by the real path: Python keeps the one that it is given."""
    if called.file is None or called.is_shell:
        return {}
    return {os.path.realpath(called.file): os.path.normpath(called.file)}


def _with_absolute_files(found: Bundle, root: Path, links: Mapping[str, str]) -> Bundle:
    """The bundle with absolute files in its settings and calls; `links` are those that a run names otherwise."""

    def placed(location: Location) -> Location:
        if posixpath.basename(location.file) == TYPED:
            return replace(location, file=TYPED)
        path = posixpath.normpath(f"{root}/{location.file}")
        return replace(location, file=links.get(path, path))

    def of_given(given: WrittenValue) -> WrittenValue:
        return replace(given, location=placed(given.location))

    def of_call(call: ConsumerCall) -> ConsumerCall:
        arguments = {key: of_given(given) for key, given in call.arguments.items()}
        return replace(call, arguments=arguments, location=placed(call.location))

    def of_setting(setting: Setting) -> Setting:
        at, feeds = setting.location, setting.feeds
        return replace(setting, location=at and placed(at), feeds=feeds and placed(feeds))

    return replace(found, settings=tuple(map(of_setting, found.settings)), calls=tuple(map(of_call, found.calls)))


def _text(called: Invocation, library: Library) -> tuple[str, str] | None:
    """The command as a shell script, and its file; what is typed has one in the folder where it is started.

    None where the file that it names lies outside the root, or cannot be read.
    """
    name = f"{os.path.relpath(os.path.realpath(called.cwd), library.root)}/{TYPED}"
    if called.line is not None:
        return called.line, name
    if called.file is not None and called.file.is_file():
        file = _name(called.file, library, "shell" if called.is_shell else "python")
        if file is None:
            return None
        if called.is_shell:
            return library.files[file].data.decode(errors="replace"), file
    front = (f"{name}={value}" for name, value in called.variables.items())
    return typed((*front, *called.read_as())), name


def _name(file: Path, library: Library, syntax: str) -> str | None:
    """The name of a file below the root; it is read as this syntax, whatever its name ends with."""
    real = Path(os.path.realpath(file))
    if not real.is_relative_to(library.root):
        return None
    name = real.relative_to(library.root).as_posix()
    read = read_file(str(real), name, syntax)
    if isinstance(read, ScanNote):
        return None
    library.files[name] = read
    return name
