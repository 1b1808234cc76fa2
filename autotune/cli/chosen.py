"""The command that a verb is about: the one that is typed, else that of a run, which is said."""

from __future__ import annotations

from pathlib import Path

from autotune.api import remembered
from autotune.outlet import tell


def chosen(words: tuple[str, ...], verb: str, run: str = "last") -> tuple[tuple[str, ...], Path]:
    """The words of a command and the folder to start it in. Raises UsageError where no run's command is known."""
    if words:
        return words, Path.cwd()
    known = remembered.command(run, verb, Path.cwd())
    whose = "the last diagnosis" if run == "last" else f"run {known.run}"
    tell(f"autotune: the command of {whose}: {known}")
    return known.words, known.cwd
