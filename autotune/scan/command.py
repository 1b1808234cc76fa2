"""The files behind a command that a person typed: its script and configs, and the words themselves."""

from __future__ import annotations

import os
import posixpath
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from autotune.catalogue.dialects import Version
from autotune.errors import InternalError, UsageError
from autotune.model.evidence import Location, Setting
from autotune.model.scanned import TYPED, Bundle, Call, Given, Pin
from autotune.scan.absent import absent
from autotune.scan.bundle import bundle, of_launch, script_name
from autotune.scan.declared import Declared
from autotune.scan.launch import launches
from autotune.scan.library import Library
from autotune.scan.statements import unset
from autotune.syntax import shell

_SHELLS = ("sh", "bash", "zsh", "dash")
_RUNS_A_LINE = ("-c", "-ec", "-lc")


def scan_command(words: Sequence[str], *, cwd: Path, root: Path, versions: Mapping[str, Version]) -> Bundle | None:
    """What the files say that `words` name, seen from `cwd`; None when nothing can be read from them.

    `words` are a script and its arguments, a launcher's command, or a shell with a script or a line to run. Files of
    places are absolute, as a run names them, or TYPED; only files below `root` are read.
    """
    real, here = Path(os.path.realpath(root)), Path(os.path.realpath(cwd))
    if not here.is_relative_to(real):
        return None
    library = Library(real, {})
    text, name = _text(words, library, posixpath.join(here.relative_to(real).as_posix(), TYPED))
    try:
        commands = launches(shell.read(text.encode(), name), name)
    except UsageError:
        return None
    found = [(one, parts) for one in commands if (parts := of_launch(library, one)) is not None]
    if bug := next((note for note in library.notes if note.is_bug), None):
        raise InternalError(f"{bug.where}: {bug.why}")
    if len(found) != 1:
        return None
    launch, parts = found[0]
    whole, script = bundle(parts, library, versions, ()), script_name(library, launch)
    whole = replace(whole, settings=(*whole.settings, *absent(whole, versions)))
    more = unset(whole, script, library, versions) if script is not None else ()
    return _placed(replace(whole, settings=(*whole.settings, *more)), real)


def pins(found: Bundle | None, *, cwd: Path, root: Path) -> tuple[Pin, ...]:
    """What the project's files bound of packages, seen from the script, or from `cwd` where no bundle is known."""
    real, here = Path(os.path.realpath(root)), Path(os.path.realpath(cwd))
    if found is not None:
        return Declared(real).pins(found.files[0])
    if not here.is_relative_to(real):
        return ()
    return Declared(real).pins(posixpath.normpath(f"{here.relative_to(real).as_posix()}/{TYPED}"))


def _placed(found: Bundle, root: Path) -> Bundle:
    """The bundle with absolute files in its settings and calls."""

    def placed(location: Location) -> Location:
        name = posixpath.basename(location.file)
        return replace(location, file=TYPED if name == TYPED else posixpath.normpath(f"{root}/{location.file}"))

    def of_given(given: Given) -> Given:
        return replace(given, location=placed(given.location))

    def of_call(call: Call) -> Call:
        arguments = {key: of_given(given) for key, given in call.arguments.items()}
        return replace(call, arguments=arguments, location=placed(call.location))

    def of_setting(setting: Setting) -> Setting:
        at, feeds = setting.location, setting.feeds
        return replace(setting, location=at and placed(at), feeds=feeds and placed(feeds))

    return replace(found, settings=tuple(map(of_setting, found.settings)), calls=tuple(map(of_call, found.calls)))


def _text(words: Sequence[str], library: Library, typed: str) -> tuple[str, str]:
    """The command as a shell script, and its file; `typed` is that of the words themselves."""
    is_shell = Path(words[0]).name in _SHELLS and len(words) > 1
    script = library.find(words[1], typed, ("shell",)) if is_shell else None
    if script is not None:
        return library.files[script].data.decode(errors="replace"), script
    if is_shell and len(words) > 2 and words[1] in _RUNS_A_LINE:
        return words[2], typed
    return shlex.join(["python", *words] if words[0].endswith(".py") else words), typed
