"""The command that the user gave, and how the probe gets into it."""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
from collections.abc import Mapping, Sequence
from itertools import dropwhile
from pathlib import Path

from msgspec import Struct, field

from autotune import reading
from autotune.errors import ScriptError, UsageError
from autotune.invocation import Invocation, invoked, typed
from autotune.invocation.modules import first_line
from autotune.invocation.shape import PYTHON, script_of_python
from autotune.machine import find_python
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
    script = called.file if called.file is not None and called.file.is_file() else None
    folder = called.cwd if called.cwd != cwd else None
    return PlannedCommand(_argv(called, python, environ), script, called.variables, folder)


def _check(called: Invocation) -> None:
    """Raise for what cannot be measured here, before anything is started."""
    program, file = called.program, called.file
    if Path(program).name in _SUBMITTERS:
        raise _submits(Path(program).name, called.words)
    if notebook := next(
        (word for word in called.words[:2] if word.endswith(".ipynb") and (called.cwd / word).is_file()), None
    ):
        raise _of_notebook(notebook, called.cwd)
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


def _of_notebook(name: str, cwd: Path) -> UsageError:
    """How to make a script of a notebook. One of its name that is there already is not written over."""
    stem = Path(name).with_suffix("")
    is_taken = (cwd / stem.with_suffix(".py")).exists()
    output = f"{stem.name}_notebook" if is_taken else stem.name
    script = shlex.quote(str(stem.with_name(f"{output}.py")))
    option = f" --output {shlex.quote(output)}" if is_taken else ""
    of_ipython = (
        f"Before the last one, delete the lines of {script} with get_ipython(): they were lines with % or !, which "
        "only a notebook runs. Where a cell begins with %%, delete that line in the notebook, and convert it again.\n"
    )
    return UsageError(
        "this is a notebook, and only scripts can be started",
        where=name,
        to_do="Make a script of it, and diagnose that:\n"
        "    pip install nbconvert ipython\n"
        f"    jupyter nbconvert --to python{option} {shlex.quote(name)}\n"
        f"    autotune diagnose {script}\n"
        f"{of_ipython if _has_magic(cwd / name) else ''}"
        "`autotune apply` edits the script, not the notebook: `autotune apply --diff` shows the lines to change there.",
    )


def _has_magic(notebook: Path) -> bool:
    """Whether a line of its code is IPython's own; also where it cannot be read."""
    try:
        cells = json.loads(reading.read(notebook, follow=True, most_bytes=_LARGEST_NOTEBOOK)).get("cells", ())
        code = ["".join(cell["source"]) for cell in cells if cell["cell_type"] == "code"]
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return True
    return any(_MAGIC.search(text) for text in code)


_LARGEST_NOTEBOOK = 50_000_000
_MAGIC = re.compile(r"^\s*(?:[\w, ]+=\s*)?[%!]", re.MULTILINE)
"""%matplotlib inline, !pip install x, files = !ls"""


def _submits(program: str, words: Sequence[str]) -> ScriptError:
    starter = _SUBMITTERS[program]
    prefix = f"{starter} " if starter else ""
    return ScriptError(
        f"{program} only submits a job and returns at once: there is nothing to measure here",
        where=" ".join(words),
        to_do=f"Put this line into the job script, in place of the one that starts training:\n"
        f"    {prefix}autotune diagnose -- <the command that starts training>",
    )
