"""The file behind the name of a module, and the module behind a console tool. Nothing is imported."""

from __future__ import annotations

import ast
import os
import re
import shlex
from collections.abc import Iterator, Mapping, Sequence
from itertools import chain
from pathlib import Path

from autotune import reading
from autotune.invocation.shape import PYTHON

MOST_BYTES = 65_536
"""Of a console tool and of a list of installed folders: they are a few lines."""

_ENTRY = re.compile(r"^[ \t]*from[ \t]+([\w.]+)[ \t]+import[ \t]+\w+", re.MULTILINE)
_MAPPING = re.compile(r"^MAPPING[^=\n]*=\s*(\{.*?\})", re.MULTILINE | re.DOTALL)


def first_line(file: Path) -> Sequence[str]:
    """The words behind "#!" in the first line of a file; a shell line that executes a Python with a long path counts.

    () for a file without such a line, or that cannot be read.
    """
    lines = _text(file).splitlines()[:2]
    if not lines or not lines[0].startswith("#!"):
        return ()
    if len(lines) > 1 and lines[1].startswith("'''exec'"):
        return _words(lines[1].removeprefix("'''exec'"))
    return _words(lines[0].removeprefix("#!"))


def _words(line: str) -> Sequence[str]:
    try:
        return shlex.split(line)
    except ValueError:
        return line.split()


def is_of_python(line: Sequence[str]) -> bool:
    """Whether a first line starts a Python, also by way of `env`."""
    return any(PYTHON.fullmatch(Path(word).name) for word in line)


def entry_module(tool: Path) -> str | None:
    """The module of a console tool's entry point ("from pkg.cli import main"); None for another file."""
    if not is_of_python(first_line(tool)):
        return None
    found = (name for name in _ENTRY.findall(_text(tool)) if name != "__future__")
    return next(found, None)


def module_file(module: str, folders: Sequence[Path], *, is_run: bool) -> Path | None:
    """The file of `module` below the first of `folders` that has it; of a package that `is_run` that is __main__.py."""
    if not all(part.isidentifier() for part in module.split(".")):
        return None
    inner = Path(*module.split("."))
    package = inner / ("__main__.py" if is_run else "__init__.py")
    places = (folder / name for folder in folders for name in (inner.with_suffix(".py"), package))
    return next((place for place in places if place.is_file()), None)


def search_path(cwd: Path, environ: Mapping[str, str], tool: Path | None = None) -> tuple[Path, ...]:
    """Where modules of the user's own are looked for: PYTHONPATH, the working folder and its src, and what is
    installed for editing in the environment of a console `tool`."""
    given = [cwd / entry for entry in environ.get("PYTHONPATH", "").split(os.pathsep) if entry]
    edited = _edited(tool.parent.parent) if tool is not None else ()
    return tuple(dict.fromkeys(chain([cwd], given, edited, [cwd / "src"])))


def _edited(prefix: Path) -> Iterator[Path]:
    """Folders of packages that are installed in an environment as links to where they are edited."""
    for file in sorted(prefix.glob("lib/python3*/site-packages/*.pth")):
        yield from (Path(line) for line in _text(file).splitlines() if line.startswith("/"))
    for file in sorted(prefix.glob("lib/python3*/site-packages/__editable__*_finder.py")):
        found = _MAPPING.search(_text(file))
        try:
            mapping = ast.literal_eval(found[1]) if found is not None else {}
        except (ValueError, SyntaxError):
            continue
        yield from (Path(str(place)).parent for place in mapping.values())


def _text(file: Path) -> str:
    try:
        return reading.read(file, follow=True, most_bytes=MOST_BYTES).decode("utf-8", "replace")
    except OSError:
        return ""
