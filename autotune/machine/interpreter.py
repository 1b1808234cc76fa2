"""Which Python runs the user's script, and how that is known."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from autotune.errors import UsageError
from autotune.invocation import Invocation, invoked
from autotune.invocation.modules import first_line
from autotune.invocation.shape import PYTHON
from autotune.machine import environments


def find_python(command: Sequence[str], explicit: str | None, environ: Mapping[str, str], cwd: Path) -> tuple[str, str]:
    """The interpreter's path, and why it is that one: printed by the report.

    In this order: `--python`; the one that `command` itself names (python3.11 x.py, the first line of a console script
    such as torchrun); the active virtual environment's; that of the project of the script, where it has torch or ours
    has none; ours. Links are kept, as a virtual environment's interpreter is one. Raises UsageError when `--python` or
    a Python that the command names does not exist.
    """
    if explicit is not None:
        return _existing(explicit, environ, cwd, "Give --python the path of an interpreter."), "--python"
    called = invoked(command, cwd, environ)
    environ = {**environ, **called.variables}
    named = _named(called, environ) if called.words and not called.has_prefix else None
    if named is not None:
        return named
    own = (sys.executable, "the Python that autotune runs in")
    return _active(environ) or (_of_project(called) if called.words else None) or own


def candidates(module: str, command: Sequence[str], environ: Mapping[str, str], cwd: Path) -> tuple[str, ...]:
    """Interpreters of this machine whose environment has `module`: the active one, the project's, those on PATH, ours,
    and those of conda and of virtualenvwrapper. Nothing of them is run."""
    active, called = _active(environ), invoked(command, cwd, environ)
    places = [active[0]] if active is not None else []
    places += [str(python) for folder in environments.of_project(called) for python in _pythons(folder)]
    places += [path for name in ("python", "python3") if (path := shutil.which(name, path=environ.get("PATH")))]
    places += [sys.executable]
    places += [str(python) for folder in environments.of_user(environ) for python in _pythons(folder)]
    having = (place for place in places if environments.has(place, module))
    return tuple({os.path.realpath(Path(place).parent): place for place in reversed(list(having))}.values())[::-1]


def _named(called: Invocation, environ: Mapping[str, str]) -> tuple[str, str] | None:
    program, cwd = called.program, called.cwd
    if PYTHON.fullmatch(Path(program).name):
        to_do = "Name an interpreter that exists, or choose one with --python."
        return _existing(program, environ, cwd, to_do), f"the command names {program}"
    if program.startswith("-") or program.endswith(".py"):
        return None
    script = _which(program, environ, cwd) or str(cwd / program)
    found = next((path for word in first_line(Path(script)) if (path := _python(word, environ))), None)
    return (found, f"the first line of {program}") if found else None


def _python(word: str, environ: Mapping[str, str]) -> str | None:
    return shutil.which(word, path=environ.get("PATH")) if PYTHON.fullmatch(Path(word).name) else None


def _active(environ: Mapping[str, str]) -> tuple[str, str] | None:
    for variable in ("VIRTUAL_ENV", "CONDA_PREFIX"):
        folder = environ.get(variable)
        python = next(iter(_pythons(Path(folder))), None) if folder else None
        if python is not None:
            return str(python), f"the active environment ({variable})"
    return None


def _of_project(called: Invocation) -> tuple[str, str] | None:
    """That of an environment beside the script or above it; one without torch is for something else, if ours has it."""
    for folder in environments.of_project(called):
        python = next(iter(_pythons(folder)), None)
        if python is None or python == Path(sys.executable):
            continue
        if environments.has(str(python), "torch") or not environments.has(sys.executable, "torch"):
            return str(python), f"the project's environment ({folder})"
    return None


def _pythons(folder: Path) -> list[Path]:
    places = (folder / name for name in ("bin/python", "Scripts/python.exe", "python.exe"))
    return [place for place in places if os.access(place, os.X_OK)]


def _existing(python: str, environ: Mapping[str, str], cwd: Path, to_do: str) -> str:
    path = _which(python, environ, cwd)
    if path is None:
        raise UsageError("there is no such Python interpreter", where=python, to_do=to_do)
    return path


def _which(program: str, environ: Mapping[str, str], cwd: Path) -> str | None:
    """The executable that a shell in `cwd` would start."""
    place = str(cwd / program) if os.sep in program else program
    return shutil.which(place, path=environ.get("PATH"))
