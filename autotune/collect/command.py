"""The command that the user gave, and how the probe gets into it."""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from autotune.errors import ScriptError, UsageError
from autotune.machine import find_python
from autotune.outlet import tell

BOOT = Path(__file__).parent.parent / "probe" / "boot"
_SUBMITTERS = {"sbatch": "srun", "qsub": "", "bsub": "", "condor_submit": ""}
_PYTHON = re.compile(r"(python|pypy)[\d.]*t?")
_ISOLATING = re.compile(r"-[^WXcm-]*[IES].*")
_NO_SCRIPT = re.compile(r"-[^WXcm-]*[cm].*|-")
_TAKES_VALUE = re.compile(r"-[^WXcm-]*[WX]|--check-hash-based-pycs")
_RUNPY = (
    "import os, runpy, sys; sys.argv = sys.argv[1:]; "
    "exec(compile(open({boot!r}).read(), {boot!r}, 'exec'), {{'__file__': {boot!r}, '__name__': 'sitecustomize'}}); "
    "runpy.run_path(sys.argv[0], run_name='__main__')"
)
"""The fallback for interpreters that ignore PYTHONPATH: our bootstrap first, then the script as __main__."""


@dataclass(frozen=True, slots=True)
class Command:
    """What to start: `argv`, and the user's `script` when a file is named (for its folder), else None."""

    argv: tuple[str, ...]
    script: Path | None


def plan_command(words: Sequence[str], python: str, cwd: Path, environ: Mapping[str, str] = os.environ) -> Command:
    """The command line for `words`: a script with its arguments, or a whole command as after `--`.

    Raises UsageError when the script or program does not exist or only submits a job somewhere else. Where it is a
    console script of another environment than `python`, a line on stderr says that it runs its own.
    """
    if not words:
        raise UsageError("no script was given", to_do="Type: autotune diagnose train.py [ARGS...]")
    first = words[0]
    if first in _SUBMITTERS:
        raise _submits(first, words)
    if first.endswith(".py"):
        return Command((python, *words), _existing(first, cwd))
    if first.endswith(".sh"):
        return Command(("bash", *words), _existing(first, cwd))
    if _PYTHON.fullmatch(Path(first).name):
        return _python_command(words, python, cwd)
    if shutil.which(str(cwd / first) if "/" in first else first, path=environ.get("PATH")) is None:
        raise UsageError("there is no such script or program", where=first, to_do="Check the path, and the spelling.")
    if hint := _other_python(words, python, cwd, environ):
        tell(hint)
    return Command(tuple(words), None)


def environment(environ: Mapping[str, str], request: Path) -> dict[str, str]:
    """The environment of the user's processes: theirs, the probe's folder first on PYTHONPATH, and the Request."""
    path = environ.get("PYTHONPATH")
    return {
        **environ,
        "PYTHONPATH": f"{BOOT}:{path}" if path else str(BOOT),
        "AUTOTUNE_REQUEST": str(request),
    }


def injected(argv: Sequence[str]) -> tuple[str, ...]:
    """`argv` of a Python process, changed so that the probe loads although flags make it ignore PYTHONPATH."""
    place = _script_place(argv)
    if place is None or not any(_ISOLATING.fullmatch(flag) for flag in argv[1:place]):
        return tuple(argv)
    boot = str(BOOT / "sitecustomize.py")
    return (*argv[:place], "-c", _RUNPY.format(boot=boot), *argv[place:])


def _script_place(argv: Sequence[str]) -> int | None:
    """Index of the script in the words of a Python process; None when there is none (-m, -c, standard input)."""
    place = 1
    while place < len(argv) and argv[place].startswith("-"):
        if _NO_SCRIPT.fullmatch(argv[place]):
            return None
        place += 2 if _TAKES_VALUE.fullmatch(argv[place]) else 1
    return place if place < len(argv) else None


def _python_command(words: Sequence[str], python: str, cwd: Path) -> Command:
    argv = (python, *words[1:])
    place = _script_place(argv)
    return Command(injected(argv), _existing(argv[place], cwd) if place is not None else None)


def _other_python(words: Sequence[str], python: str, cwd: Path, environ: Mapping[str, str]) -> str:
    """What to know when a console script runs the Python of its first line and not `python`; "" where it does not."""
    own, why = find_python(words, None, environ, cwd)
    folder = Path(python).parent
    if not why.startswith("the first line") or Path(own).parent == folder:
        return ""
    here = folder / Path(words[0]).name
    to_do = f"give its path: {here}" if os.access(here, os.X_OK) else f"install it there, beside {python}"
    return f"autotune: --python does not reach {words[0]}, which runs {own}; to measure in {folder.parent}, {to_do}"


def _existing(name: str, cwd: Path) -> Path:
    path = cwd / name
    if not path.is_file():
        raise UsageError(
            "there is no such script", where=name, to_do="Check the path; options stand before the script."
        )
    return path


def _submits(program: str, words: Sequence[str]) -> ScriptError:
    starter = _SUBMITTERS[program]
    prefix = f"{starter} " if starter else ""
    return ScriptError(
        f"{program} only submits a job and returns at once: there is nothing to measure here",
        where=" ".join(words),
        to_do=f"Put this line into the job script, in place of the one that starts training:\n"
        f"    {prefix}autotune diagnose -- <the command that starts training>",
    )
