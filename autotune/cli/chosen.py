"""The command that a verb is about: the one that is typed, else that of a run, which is said."""

from __future__ import annotations

from pathlib import Path

from msgspec.structs import replace

from autotune.api import remembered
from autotune.outlet import tell


def chosen(words: tuple[str, ...], verb: str, python: str | None, run: str = "last") -> remembered.Remembered:
    """The words of a command, the folder to start it in and its --python. Raises UsageError where no run's command is
    known."""
    if words:
        return remembered.Remembered(run, words, Path.cwd(), python)
    known = remembered.command(run, verb, Path.cwd())
    whose = "the last diagnosis" if run == "last" else f"run {known.run}"
    tell(f"autotune: the command of {whose}, {remembered.age(known.run)}: {known}")
    if run == "last" and (newer := remembered.passed_over(verb, Path.cwd())):
        tell(f"autotune: {newer}")
    return replace(known, python=python or known.python)
