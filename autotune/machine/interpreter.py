"""Which Python runs the user's script, and how that is known."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from autotune.errors import UsageError

_PYTHON = re.compile(r"(python|pypy)\d*(\.\d+)*t?(\.exe)?")


def find_python(command: Sequence[str], explicit: str | None, environ: Mapping[str, str], cwd: Path) -> tuple[str, str]:
    """The interpreter's path, and why it is that one: printed by the report.

    In this order: `--python`; the one that `command` itself names (python3.11 x.py, the first line of a
    console script such as torchrun); the active virtual environment's; ours. Links are kept, as a virtual
    environment's interpreter is one. Raises UsageError when `--python` or a Python that the command names
    does not exist.
    """
    if explicit is not None:
        return _existing(explicit, environ, cwd, "Give --python the path of an interpreter."), "--python"
    named = _named(command, environ, cwd)
    if named is not None:
        return named
    return _active(environ) or (sys.executable, "the Python that autotune runs in")


def _named(command: Sequence[str], environ: Mapping[str, str], cwd: Path) -> tuple[str, str] | None:
    program = command[0] if command else ""
    if _PYTHON.fullmatch(Path(program).name):
        to_do = "Name an interpreter that exists, or choose one with --python."
        return _existing(program, environ, cwd, to_do), f"the command names {program}"
    if not program or program.endswith(".py"):
        return None
    script = _which(program, environ, cwd)
    found = _from_first_line(Path(script), environ) if script else None
    return (found, f"the first line of {program}") if found else None


def _from_first_line(script: Path, environ: Mapping[str, str]) -> str | None:
    """The Python of a script's "#!" line.

    A path that is long or has a space does not fit there: installers then write a shell line that executes
    it.
    """
    try:
        with script.open("rb") as file:
            first, second = (file.readline(4096).decode("utf-8", "replace").strip() for _ in range(2))
    except OSError:
        return None
    if not first.startswith("#!"):
        return None
    words = _words(first.removeprefix("#!"))
    if second.startswith("'''exec'"):
        words = _words(second.removeprefix("'''exec'"))
    return next((path for word in words if (path := _python(word, environ))), None)


def _words(line: str) -> list[str]:
    try:
        return shlex.split(line)
    except ValueError:
        return line.split()


def _python(word: str, environ: Mapping[str, str]) -> str | None:
    return shutil.which(word, path=environ.get("PATH")) if _PYTHON.fullmatch(Path(word).name) else None


def _active(environ: Mapping[str, str]) -> tuple[str, str] | None:
    for variable in ("VIRTUAL_ENV", "CONDA_PREFIX"):
        folder = environ.get(variable)
        if not folder:
            continue
        for name in ("bin/python", "Scripts/python.exe", "python.exe"):
            path = Path(folder, name)
            if os.access(path, os.X_OK):
                return str(path), f"the active environment ({variable})"
    return None


def _existing(python: str, environ: Mapping[str, str], cwd: Path, to_do: str) -> str:
    path = _which(python, environ, cwd)
    if path is None:
        raise UsageError("there is no such Python interpreter", where=python, to_do=to_do)
    return path


def _which(program: str, environ: Mapping[str, str], cwd: Path) -> str | None:
    """The executable that a shell in `cwd` would start."""
    place = str(cwd / program) if os.sep in program else program
    return shutil.which(place, path=environ.get("PATH"))
