"""The command that the user gave, and how the probe gets into it."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from itertools import dropwhile
from pathlib import Path

from msgspec import Struct, field

from autotune.errors import ScriptError, UsageError
from autotune.invocation import Invocation, invoked, typed
from autotune.invocation.modules import first_line
from autotune.invocation.shape import PYTHON, script_of_python
from autotune.machine import find_python
from autotune.model.source import NOTEBOOK
from autotune.outlet import print_stderr

BOOT = Path(__file__).parent.parent / "probe" / "boot"
_SUBMITTERS = {"sbatch": "srun", "qsub": "", "bsub": "", "condor_submit": ""}
_ISOLATING = re.compile(r"-[^WXcm-]*[IES].*")
_RUNPY = (
    "import os, runpy, sys; sys.argv = sys.argv[1:]; "
    "exec(compile(open({boot!r}).read(), {boot!r}, 'exec'), {{'__file__': {boot!r}, '__name__': 'sitecustomize'}}); "
    "runpy.run_path(sys.argv[0], run_name='__main__')"
)
"""The fallback for interpreters that ignore PYTHONPATH: our bootstrap first, then the script as __main__."""


class PlannedCommand(Struct, frozen=True):
    """What to start: `argv`, with `variables` beside the environment, in the folder `cwd` (None: the user's).

    `script` is the user's own file that it runs, where one is known (for its folder), else None.
    """

    argv: tuple[str, ...]
    script: Path | None
    variables: Mapping[str, str] = field(default_factory=dict)
    cwd: Path | None = None


def plan_command(
    words: Sequence[str], python: str, cwd: Path, environ: Mapping[str, str] = os.environ
) -> PlannedCommand:
    """The command line for `words`: a script with its arguments, a module behind -m, or a whole command as after `--`.

    Raises UsageError when the script or program does not exist or only submits a job somewhere else. Where it is a
    console script of another environment than `python`, a line on stderr says that it runs its own.
    """
    called = invoked(words, cwd, environ)
    if not called.words:
        raise UsageError("no script was given", to_do="Type: autotune diagnose train.py [ARGS...]")
    _check(called)
    environ = {**environ, **called.variables}
    script = called.file if called.file is not None and called.file.is_file() else _notebook(called)
    folder = called.cwd if called.cwd != cwd else None
    return PlannedCommand(_argv(called, python, environ), script, called.variables, folder)


def _notebook(called: Invocation) -> Path | None:
    """The notebook that a command of Jupyter runs: `jupyter execute train.ipynb`."""
    named = (called.cwd / word for word in called.words if word.endswith(NOTEBOOK))
    return next((path for path in named if path.is_file()), None)


def _check(called: Invocation) -> None:
    """Raise for what cannot be measured here, before anything is started."""
    program, file = called.program, called.file
    if Path(program).name in _SUBMITTERS:
        raise _submits(Path(program).name, called.words)
    if program.startswith("-") and called.module is None:
        raise UsageError(
            "autotune has no such option",
            where=program,
            to_do="Options of autotune come before the script, its own options after it: `autotune diagnose --help`.",
        )
    if file is not None and not file.is_file():
        raise UsageError(
            "there is no such script",
            where=called.words[called.at],
            to_do="Check the path; options come before the script.",
        )


def _argv(called: Invocation, python: str, environ: Mapping[str, str]) -> tuple[str, ...]:
    words, program, is_first = called.words, called.program, not called.has_prefix
    if called.file is not None and called.file.suffix == NOTEBOOK:
        return _of_notebook(called, python)
    if is_first and (program.endswith(".py") or program in ("-m", "--module")):
        return (python, "-m", *words[1:]) if program.startswith("-") else (python, *words)
    if is_first and PYTHON.fullmatch(Path(program).name):
        return injected((python, *words[1:]))
    if is_first and called.file is not None and called.at == 0 and called.module is None:
        return _through_first_line(called, python)
    first = words[0]
    if shutil.which(str(called.cwd / first) if "/" in first else first, path=environ.get("PATH")) is None:
        raise UsageError("there is no such script or program", where=first, to_do="Check the path, and the spelling.")
    if is_first and (hint := _other_python(words, python, called.cwd, environ)):
        print_stderr(hint)
    return words


def _through_first_line(called: Invocation, python: str) -> tuple[str, ...]:
    """A script that is named by its path: the system executes it where it may, else the words of its first line do,
    flags and all. A name without a folder is none that the system finds; without a first line bash starts it."""
    assert called.file is not None
    line = first_line(called.file)
    if called.is_shell and not line:
        return ("bash", *called.words)
    if shutil.which(line[0]) is None:
        raise UsageError(
            f"its first line names {line[0]}, which does not exist",
            where=called.program,
            to_do="Correct that line, or name the interpreter: "
            f"autotune diagnose -- {typed(('bash' if called.is_shell else 'python', *called.words))}",
        )
    if "/" in called.program and os.access(called.file, os.X_OK):
        return called.words
    if called.is_shell:
        return (*line, *called.words)
    flags = dropwhile(lambda word: not PYTHON.fullmatch(Path(word).name), line)
    return injected((python, *tuple(flags)[1:], *called.words))


def environment(environ: Mapping[str, str], request: Path) -> dict[str, str]:
    """The environment of the user's processes: theirs, the probe's folder first on PYTHONPATH, and the Request."""
    return {**on_python_path(environ), "AUTOTUNE_REQUEST": str(request)}


def on_python_path(environ: Mapping[str, str]) -> dict[str, str]:
    """`environ` with the folder first on PYTHONPATH that loads the probe where a variable asks for it."""
    path = environ.get("PYTHONPATH")
    return {**environ, "PYTHONPATH": f"{BOOT}:{path}" if path else str(BOOT)}


def injected(argv: Sequence[str]) -> tuple[str, ...]:
    """`argv` of a Python process, changed so that the probe loads although flags make it ignore PYTHONPATH."""
    place = script_of_python(argv)
    if place is None or not any(_ISOLATING.fullmatch(flag) for flag in argv[1:place]):
        return tuple(argv)
    boot = str(BOOT / "sitecustomize.py")
    return (*argv[:place], "-c", _RUNPY.format(boot=boot), *argv[place:])


def _other_python(words: Sequence[str], python: str, cwd: Path, environ: Mapping[str, str]) -> str:
    """What to know when a console script runs the Python of its first line and not `python`; "" where it does not."""
    own, why = find_python(words, None, environ, cwd)
    folder = Path(python).parent
    if not why.startswith("the first line") or Path(own).parent == folder:
        return ""
    here = folder / Path(words[0]).name
    to_do = f"give its path: {here}" if os.access(here, os.X_OK) else f"install it there, beside {python}"
    return f"autotune: --python does not reach {words[0]}, which runs {own}; to measure in {folder.parent}, {to_do}"


def _of_notebook(called: Invocation, python: str) -> tuple[str, ...]:
    """Jupyter's own execution of a notebook, in a kernel of `python`: it writes nothing into the file."""
    program = Path(called.program).name
    if called.has_prefix or not (program.endswith(NOTEBOOK) or PYTHON.fullmatch(program)):
        to_do = f"Name its Python instead: autotune diagnose --python PYTHON {shlex.quote(called.words[called.at])}"
        raise UsageError(f"{called.words[0]} runs no notebook", where=called.words[called.at], to_do=to_do)
    if called.arguments:
        what = f"a notebook takes no arguments: {' '.join(called.arguments)}"
        raise UsageError(what, where=called.words[called.at], to_do="Set its values in a cell.")
    missing = _missing_packages(python)
    if missing:
        raise UsageError(
            f"running a notebook needs {' and '.join(missing)}, which {python} does not have",
            where=called.words[called.at],
            to_do=f"Install what runs notebooks beside torch: {shlex.quote(python)} -m pip install {' '.join(missing)}",
        )
    return (python, "-c", _EXECUTE, *_KERNEL, called.words[called.at])


def _missing_packages(python: str) -> list[str]:
    """The packages that running a notebook needs and an environment lacks; none where it cannot be asked."""
    try:
        done = subprocess.run([python, "-c", _LOOK], capture_output=True, text=True, check=False)
    except OSError:
        return []
    return done.stdout.split()


_EXECUTE = "import sys; from nbclient.cli import main; sys.exit(main())"

_KERNEL = ("--kernel_name=python3", "--startup_timeout=600")
"""The kernel of the same environment, whatever the notebook was last run with; a start with the probe takes longer."""

_LOOK = "from importlib.util import find_spec; print(*(one for one in ('nbclient', 'ipykernel') if not find_spec(one)))"


def _submits(program: str, words: Sequence[str]) -> ScriptError:
    starter = _SUBMITTERS[program]
    prefix = f"{starter} " if starter else ""
    return ScriptError(
        f"{program} only submits a job and returns at once: there is nothing to measure here",
        where=" ".join(words),
        to_do=f"Put this line into the job script, in place of the one that starts training:\n"
        f"    {prefix}autotune diagnose -- <the command that starts training>",
    )
