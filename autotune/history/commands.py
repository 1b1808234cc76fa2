"""Earlier commands: a verb without a command takes the one of a run, and a command finds its own run.

Commands come from this user's state, never from the project: a file of a repository cannot start anything. Commands
that may hold a secret are not stored.
"""

from __future__ import annotations

import calendar
import contextlib
import re
import shlex
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

from msgspec import Struct

from autotune import state
from autotune.collect import artefacts
from autotune.errors import UsageError
from autotune.invocation import invoked, typed
from autotune.invocation.redacted import is_whole
from autotune.invocation.shape import name as program_name
from autotune.patch.file import NAME
from autotune.report.units import duration

_VERB = re.compile(r"[a-z]+([_-][a-z]+)*")
"""What stands behind a program and says what it does; a config or a number does not."""


class StoredCommand(Struct, frozen=True):
    """The command of run `run`, the folder where it was typed, and the interpreter that --python named."""

    run: str
    words: tuple[str, ...]
    cwd: Path
    python: str | None = None

    def __str__(self) -> str:
        """As a person reads it, with the folder where that is another one."""
        away = "" if self.cwd == Path.cwd() else f" (in {self.cwd})"
        return f"{typed(self.words)}{away}"


def store(run: Path, command: StoredCommand, shown: Sequence[str]) -> None:
    """Store the command of a run. `shown` is the command without secrets: where words are missing, only the folder is
    stored."""
    words = command.words if is_whole(shown) else ()
    with contextlib.suppress(OSError, UsageError):  # then it has to be typed again
        state.store_command(run.parents[2], run.name, words, command.cwd, command.python)


def age(run: str) -> str:
    """How long ago a run was made, by its id: "3 min 20 s ago", "2 days ago"; its id where that holds no time."""
    try:
        seconds = time.time() - calendar.timegm(time.strptime(run[:15], "%Y%m%d-%H%M%S"))
    except ValueError:
        return f"run {run}"
    days = round(seconds / 86400)
    return f"{days} days ago" if days >= 2 else f"{duration(max(0.0, seconds))} ago"


def newer_elsewhere(verb: str, cwd: Path) -> str:
    """How to use the project's newest run, if "last" is an older one because that was typed in `cwd`; "" otherwise."""
    run = artefacts.newest_run_elsewhere(cwd)
    if run is None:
        return ""
    folder = state.folders(run.parents[2])[run.name]
    return (
        f"a newer run, {age(run.name)}, was started in another folder: cd {shlex.quote(str(folder))} && autotune {verb}"
    )


def is_remembered(words: Sequence[str], cwd: Path) -> bool:
    """Whether a run of this project remembers exactly this command, which then holds no secret."""
    return any(tuple(words) == row[0] for row in state.commands(artefacts.project_root(cwd)).values())


def command(name: str, verb: str, cwd: Path) -> StoredCommand:
    """The command of a run ("last", its id or folder). Raises UsageError where it is not known."""
    to_do = f"Type: autotune {verb} train.py [ARGS...]"
    try:
        run = artefacts.resolve(name, cwd)
    except UsageError as error:
        raise UsageError(f"no script was given, and {error.what}", where=error.where, to_do=to_do) from None
    known = _stored_command(run)
    if known is None:
        why = "autotune stores no command that may hold a secret, or the run was recorded elsewhere"
        raise UsageError(f"no script was given, and the command of run {run.name} is not known: {why}", to_do=to_do)
    return known


def run_of_command(words: Sequence[str], cwd: Path) -> str:
    """The run that proposes changes for this command: "last", or its newest run if the last is of another one.

    Raises UsageError where the last run is of another command, and this one has none.
    """
    try:
        last = artefacts.resolve("last", cwd)
    except UsageError:
        return "last"  # who asks for it says so
    known = _stored_command(last)
    if known is None or _subject(known.words, known.cwd) == _subject(words, cwd):
        return "last"
    root, subject = last.parents[2], _subject(words, cwd)
    commands = state.commands(root)
    for run in reversed(artefacts.runs(root)):
        if run.name in commands and (run / NAME).is_file() and _subject(*commands[run.name][:2]) == subject:
            return str(run)
    raise UsageError(
        "the last diagnosis is of another command, and no diagnosis of this command proposes a change",
        where=typed(known.words),
        to_do=f"Diagnose this command first: autotune diagnose -- {typed(words)}",
    )


def runs(words: Sequence[str], cwd: Path, root: Path) -> Iterator[str]:
    """The runs of the project at `root` that remember exactly this command, typed in `cwd`, the newest first."""
    commands = state.commands(root)
    for run in reversed(artefacts.runs(root)):
        if run.name in commands and commands[run.name][:2] == (tuple(words), cwd):
            yield run.name


def _stored_command(run: Path) -> StoredCommand | None:
    """The command of a run folder that was made here."""
    if len(run.parents) < 3 or not state.is_own_run(run, state.registered_runs(run.parents[2])):
        return None
    commands = state.commands(run.parents[2])
    return StoredCommand(run.name, *commands[run.name]) if run.name in commands else None


def _subject(words: Sequence[str], cwd: Path) -> str:
    """What a command trains, however named: the real path of its script, its module, or a program with its verb
    or recipe. A line that is given to a shell or a Python is its own text, in its folder."""
    called = invoked(words, cwd)
    if called.file is not None and called.module is None:
        return str(called.file.resolve())
    if not called.words or called.parts is None:
        return typed(called.words)
    if called.line is not None:
        return f"{called.cwd.resolve()}: {typed(called.words[called.words.index(called.line) :])}"
    launcher, target = called.parts.launcher, called.parts.target
    if launcher is not None and target is None:
        return f"{called.cwd.resolve()}: {typed(called.words[called.parts.program :])}"
    if called.file is not None:
        return str(called.file.resolve())
    if target is not None and called.module is None:
        return f"{program_name(called.program)} {called.words[target]}"
    verb = next(filter(_VERB.fullmatch, called.arguments[:1]), "")
    return f"{called.module or program_name(called.program)} {verb}"
