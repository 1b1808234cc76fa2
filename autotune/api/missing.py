"""A script that failed for want of a package: which Python lacks it, and which one of this machine has it."""

from __future__ import annotations

import ast
import os
import re
import shlex
import shutil
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from autotune import reading
from autotune.invocation import Invocation, invoked, typed
from autotune.invocation.modules import module_file, search_path
from autotune.machine.interpreter import candidates, lacking
from autotune.model.report import RunSummary

MOST_BYTES = 1_000_000
_NAMED = 3
_MISSING = re.compile(r"ModuleNotFoundError: No module named '([\w.]+)'")


def hint(words: Sequence[str], run: RunSummary, cwd: Path, environ: Mapping[str, str] = os.environ) -> str:
    """What to do about a package that the Python of a failed run lacks; "" where it lacks none that is known."""
    called = invoked(words, cwd, environ)
    python = _python(called, run, environ)
    said = _MISSING.match(run.error)
    wanted = [said[1].partition(".")[0]] if said is not None else list(_wanted(called, environ))
    is_other = said is None and run.num_processes > 0  # it was recorded how it failed
    module = lacking(python, wanted) if python and not is_other else None
    if module is None:
        return ""
    having = [one for one in candidates(module, words, environ, cwd) if Path(one).parent != Path(python).parent]
    lacks = f"\n{python} has no {module!r}"
    if not having:
        return f"{lacks}, and no Python that was looked at has it: install it there, or name another with --python."
    others = f" ({', '.join(having[1 : 1 + _NAMED])} too)" if len(having) > 1 else ""
    return f"{lacks}; {having[0]} has it{others}:\n    {_line(called, words, having[0])}"


def _python(called: Invocation, run: RunSummary, environ: Mapping[str, str]) -> str:
    """The interpreter that failed: where a shell or a runner starts it and nothing was recorded, that on PATH."""
    is_recorded = run.num_processes > 0
    is_chosen_there = called.is_shell or called.line is not None
    return run.python if is_recorded or not is_chosen_there else shutil.which("python", path=environ.get("PATH")) or ""


def _wanted(called: Invocation, environ: Mapping[str, str]) -> Iterator[str]:
    """The packages that the script imports, its own left out; of a shell script only torch is known."""
    if called.file is None or called.is_shell:
        yield "torch"
        return
    folders = (called.file.resolve().parent, *search_path(called.cwd, environ))
    for module in _imports(called.file):
        is_file = module_file(module, folders, is_run=False) is not None
        is_own = is_file or any((folder / module).is_dir() for folder in folders)
        if not (is_own or module in sys.stdlib_module_names):
            yield module


def _imports(file: Path) -> Iterator[str]:
    """The packages that a script imports when it is loaded, in their order, without what it only tries to import."""
    try:
        tree = ast.parse(reading.read(file, follow=True, most_bytes=MOST_BYTES))
    except (OSError, SyntaxError, ValueError, RecursionError):
        return
    for node in tree.body:
        if isinstance(node, ast.Import):
            yield from (alias.name.partition(".")[0] for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            yield node.module.partition(".")[0]


def _line(called: Invocation, words: Sequence[str], python: str) -> str:
    """The command that measures in the environment of `python`; a shell and a runner find theirs on PATH."""
    folder = Path(python).parent
    if called.is_shell or called.line is not None or called.has_prefix:
        return f"PATH={shlex.quote(str(folder))}:$PATH autotune diagnose -- {typed(words)}"
    launcher = called.parts.launcher if called.parts is not None else None
    program, at = folder / Path(called.program).name, len(called.front)
    if launcher is not None and launcher.name != "python" and os.access(program, os.X_OK):
        return f"autotune diagnose -- {typed((*words[:at], str(program), *words[at + 1 :]))}"
    return f"autotune diagnose --python {shlex.quote(python)} -- {typed(words)}"
