"""The command that a verb is about: the one that is typed, else that of a run, which is said."""

from __future__ import annotations

from pathlib import Path

from msgspec.structs import replace

from autotune.diagnose import command_history
from autotune.outlet import print_stderr


def resolve_command(
    words: tuple[str, ...], verb: str, python: str | None, run: str = "last"
) -> command_history.StoredCommand:
    """The words of a command, the folder to start it in and its --python. Raises UsageError where no run's command is
    known."""
    if words:
        return command_history.StoredCommand(run, words, Path.cwd(), python)
    known = command_history.command(run, verb, Path.cwd())
    whose = "the last diagnosis" if run == "last" else f"run {known.run}"
    print_stderr(f"autotune: the command of {whose}, {command_history.age(known.run)}: {known}")
    if run == "last" and (newer := command_history.newer_elsewhere(verb, Path.cwd())):
        print_stderr(f"autotune: {newer}")
    return replace(known, python=python or known.python)
