"""A script that failed for want of a package: which Python lacks it, and which one of this machine has it; of a package
of its own, how it is started."""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from autotune import reading
from autotune.invocation import Invocation, invoked, typed
from autotune.invocation.modules import module_file, search_path
from autotune.machine.interpreter import candidates
from autotune.model.report import RunSummary

if TYPE_CHECKING:
    from autotune.collect import EarlyException

_MAX_OTHERS = 3
_MISSING = re.compile(r"ModuleNotFoundError: No module named '(\w+)'")
"""A name with a dot is not of a missing package: what it lies in was found."""


def hint(
    words: Sequence[str], run: RunSummary, raised: EarlyException | None, cwd: Path, environ: Mapping[str, str]
) -> str:
    """What to do about a package that the Python of a failed run lacks; "" where something else ended it.

    `raised` is what ended it before torch came, when nothing was recorded.
    """
    found = _MISSING.match(run.error)
    if found is not None:
        module, python = found[1], run.python
    elif raised is not None and "." not in raised.module and not run.num_processes:
        module, python = raised.module, raised.python
    else:
        return ""
    called = invoked(words, cwd, environ)
    home = _parent_of_package(module, called) if module else None
    if home is not None:
        return _as_module(module, called, words, home)
    if not module or _is_in_project(module, called, environ):
        return ""
    with_package = [one for one in candidates(module, words, environ, cwd) if Path(one).parent != Path(python).parent]
    lacks = f"\n{python} has no {module!r}"
    if not with_package:
        return f"{lacks}, and no other Python found here has it: install it there, or name another with --python."
    others = f" ({', '.join(with_package[1 : 1 + _MAX_OTHERS])} too)" if len(with_package) > 1 else ""
    return f"{lacks}; {with_package[0]} has it{others}:\n    {_command_for(called, words, with_package[0])}"


def _parent_of_package(module: str, called: Invocation) -> Path | None:
    """The folder above the package `module` that a script lies in: Python finds it only with -m."""
    if called.file is None or called.is_shell or called.module is not None:
        return None
    package = next((folder for folder in called.file.resolve().parents if folder.name == module), None)
    return package.parent if package is not None and _holds_imports(package, called.file) else None


def _holds_imports(package: Path, script: Path) -> bool:
    """Whether a folder is the package that a script imports from, and not only called like a library."""
    text = reading.read(script, follow=True).decode("utf-8", "replace")
    found = re.findall(rf"^\s*(?:from|import)\s+{re.escape(package.name)}\.([\w.]+)", text, re.MULTILINE)
    inner = [package.joinpath(*name.split(".")) for name in found]
    files = [
        package / "__init__.py",
        *(one.with_suffix(".py") for one in inner),
        *(one / "__init__.py" for one in inner),
    ]
    return any(file.is_file() for file in files)


def _as_module(module: str, called: Invocation, words: Sequence[str], home: Path) -> str:
    """The command that starts the script as a module of its package."""
    assert called.file is not None
    name = ".".join(called.file.resolve().relative_to(home).with_suffix("").parts)
    at = len(called.front) + called.at
    launcher = called.parts.launcher if called.parts is not None else None
    flag = "--module" if launcher is not None and launcher.name == "deepspeed" else "-m"
    line = (*words[:at], flag, name, *words[at + 1 :])
    away = "" if home == called.cwd.resolve() else f"cd {shlex.quote(str(home))} && "
    dashes = "" if line[0] == "-m" else "-- "
    why = f"{called.title} is a module of {module!r}, which Python finds from {home} with -m"
    return f"\n{why}:\n    {away}autotune diagnose {dashes}{typed(line)}"


def _is_in_project(module: str, called: Invocation, environ: Mapping[str, str]) -> bool:
    """Whether it lies in the user's own folders: then it is not found for another reason."""
    beside = [called.file.resolve().parent] if called.file is not None else []
    folders = (*beside, *search_path(called.cwd, environ))
    return module_file(module, folders, is_run=False) is not None or any((one / module).is_dir() for one in folders)


def _command_for(called: Invocation, words: Sequence[str], python: str) -> str:
    """The command that measures in the environment of `python`; a shell and a runner find theirs on PATH."""
    folder = Path(python).parent
    if called.is_shell or called.line is not None or called.has_prefix:
        return f"PATH={shlex.quote(str(folder))}:$PATH autotune diagnose -- {typed(words)}"
    launcher = called.parts.launcher if called.parts is not None else None
    program, at = folder / Path(called.program).name, len(called.front)
    if launcher is not None and launcher.name != "python" and os.access(program, os.X_OK):
        return f"autotune diagnose -- {typed((*words[:at], str(program), *words[at + 1 :]))}"
    return f"autotune diagnose --python {shlex.quote(python)} -- {typed(words)}"
