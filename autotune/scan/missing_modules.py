"""Scripts that import a module of the project that is not there: forgotten, renamed or never published."""

from __future__ import annotations

import ast
import posixpath
import re
from collections.abc import Iterator
from fnmatch import fnmatch

from autotune import reading
from autotune.model.evidence import RUN, Fact, Location
from autotune.scan.library import ANYTHING, Library
from autotune.scan.missing_scripts import names_below
from autotune.scan.script.run_training import LIBRARIES

CHANGES_IMPORTS = re.compile(
    rb"\bsys\.modules\b|\bmeta_path\b|\bpath_hooks\b|\bos\.chdir\b|\bsubprocess\b|\bos\.system\b"
)
"""What of a script makes modules that no file holds, or fetches them."""

FETCHES = re.compile(
    rb"\b(?:clone|wget|curl|submodule|rsync|scp|unzip|tar|ln|cp|mv|patch|tee)\b|\bcat\s*>|\bsetup\.py\b"
)
"""What of a launch script brings modules that are not in the project."""

BUILDS = ("setup.py", "setup.cfg", "pyproject.toml", "CMakeLists.txt", "Makefile")
"""Files that say which modules are built."""

GENERATED = re.compile(r"_|version$|.*_pb2(?:_grpc)?$")
"""How modules are called that a build writes."""

MAX_BYTES = 200_000
"""What is longer is no list of files to ignore, and builds nothing."""


def fact(library: Library, script: str, launch_file: str = "") -> Fact | None:
    """Fact `code.lacks_module` of a script, which a command in `launch_file` starts, if any.

    None where no module that it imports without a condition is certainly missing.
    """
    file, source = library.files.get(script), library.python(script)
    if file is None or source is None or not script.endswith(".py") or CHANGES_IMPORTS.search(file.data):
        return None
    starting = library.files.get(launch_file)
    if starting is not None and FETCHES.search(starting.data):
        return None
    for node in source.tree.body:
        for module, folder in _of_project(library, script, node):
            if not _may_be_there(library, folder, module):
                return Fact(
                    "code.lacks_module",
                    RUN,
                    module,
                    (Location(script, node.lineno, end_line=node.end_lineno or node.lineno),),
                )
    return None


def _of_project(library: Library, script: str, node: ast.stmt) -> Iterator[tuple[str, str]]:
    """The modules that a statement imports from packages of the project, each with the folder of its package."""
    above = posixpath.dirname(script)
    if isinstance(node, ast.ImportFrom) and node.level:
        for _ in range(node.level - 1):
            above = posixpath.dirname(above)
        inner = posixpath.dirname((node.module or "").replace(".", "/"))
        yield from (
            [(f"{'.' * node.level}{node.module}", posixpath.join(above, inner).rstrip("/"))] if node.module else []
        )
        return
    names = [node.module or ""] if isinstance(node, ast.ImportFrom) else []
    names += [one.name for one in node.names] if isinstance(node, ast.Import) else []
    for name in names:
        package, _, module = name.rpartition(".")
        top = package.partition(".")[0]
        if not top or top in LIBRARIES or not module:
            continue
        places = [place for place in (above, "", "src") if library.has_folder(posixpath.join(place, top))]
        if places and _is_package(library, posixpath.join(places[0], top), top):
            yield name, posixpath.join(places[0], package.replace(".", "/"))


def _is_package(library: Library, folder: str, top: str) -> bool:
    """Whether a folder is what the project imports under its name: a package, or other files are imported from it."""
    if (library.root / folder / "__init__.py").is_file():
        return True
    library.note_asked((ANYTHING,))
    pattern = re.compile(rb"^(?:from|import)[ \t]+%b\.(\w+)" % re.escape(top).encode(), re.MULTILINE)
    imported = {name.decode() for one in library.named("python") for name in pattern.findall(library.files[one].data)}
    return any((library.root / folder / f"{name}.py").is_file() for name in imported)


def _may_be_there(library: Library, folder: str, module: str) -> bool:
    """Whether a module may exist.

    It may where its package is not in the project either, a file or folder has its name, the project is not whole
    (submodules, too many files), git is told to ignore it, or a build makes it.
    """
    last = module.rpartition(".")[2]
    library.note_asked((ANYTHING,))
    there = names_below(library.root)
    is_package = (library.root / folder).is_dir() and any((library.root / folder).glob("*.py"))
    if there is None or not is_package or GENERATED.match(last):
        return True
    if any(name.partition(".")[0] == last for name in there):
        return True
    return _is_ignored(library, posixpath.join(folder, last)) or any(
        re.search(rf"\b{re.escape(last)}\b", _text(library, name)) for name in BUILDS
    )


def _is_ignored(library: Library, module: str) -> bool:
    """Whether git may be told to leave a module or a folder above it out of the repository."""
    parts = module.split("/")
    above = ["/".join(parts[:end]) for end in range(1, len(parts) + 1)]
    names = {*parts, f"{parts[-1]}.py", *above, f"{module}.py"}
    for folder in ("", *above[:-1]):
        for line in _text(library, posixpath.join(folder, ".gitignore")).splitlines():
            pattern = line.strip().strip("/").removeprefix("**/").removesuffix("/**").removesuffix("/*")
            if pattern and not line.startswith(("#", "!")) and any(fnmatch(name, pattern) for name in names):
                return True
            if pattern and any(name.endswith(f"/{pattern}") for name in names):
                return True
    return False


def _text(library: Library, name: str) -> str:
    """What a file below the root holds; "" where it is not there."""
    try:
        return reading.read(library.root / name, most_bytes=MAX_BYTES).decode(errors="replace")
    except OSError:
        return ""
