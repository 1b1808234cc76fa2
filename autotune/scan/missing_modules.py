"""Modules of its own that a run imports and that the project does not hold: renamed, moved, or never committed."""

from __future__ import annotations

import ast
import os
import posixpath
import re
from collections.abc import Iterator, Sequence
from pathlib import Path, PurePosixPath

from autotune import reading
from autotune.model.evidence import RUN, Fact
from autotune.pycode.script_view import ScriptView
from autotune.scan.library import ANYTHING, Library
from autotune.scan.missing_scripts import names_below
from autotune.scan.module_graph import ModuleGraph
from autotune.scan.script.run_training import LIBRARIES

FOUND = "code.lacks_module"

BUILT = (
    ".pyx",
    ".rs",
    ".proto",
    ".so",
    ".pyd",
    ".cpp",
    ".cc",
    ".cu",
    ".fbs",
    ".thrift",
    "Cargo.toml",
    "CMakeLists.txt",
)
"""Ends of the names of what a build makes modules of."""

REQUIREMENTS = re.compile(r"[\w-]*requirements[\w-]*\.(txt|in)|pyproject\.toml|setup\.(py|cfg)|env\w*\.ya?ml")

CHANGES = re.compile(rb"sys\.path\s*(\.\s*(append|insert|extend)|\+?=[^=])|import path\b")

STANDS_IN = re.compile(rb"sys\.(modules\s*\[\s*[\"']|meta_path|path_hooks)|__path__")
"""What gives an import another module than the file of its name."""

ABOVE = re.compile(rb"""["']\.{0,2}/?["']|getcwd\(\)""")
"""The folder of the project, as scripts add it to sys.path."""

GENERATED = re.compile(r"^_|version|config|settings|secret|credential|local", re.IGNORECASE)
"""How modules are called that a build or the user writes."""

MOST_BYTES = 1_000_000
"""Of a file of requirements, or of .gitignore; of a larger one nothing is known."""

MOST_FOLLOWED = 200
"""Most modules on the way from a script to an import of a missing module."""


def facts(library: Library, views: Sequence[ScriptView]) -> Iterator[Fact]:
    """Fact `code.lacks_module` of a script, the first of the views, and the modules that it certainly imports, where
    one of them certainly imports such a module; of a package alone that holds the module's folder, or from which the
    project imports others that are there.
    """
    asked = [(view, node, name) for view in views for node in view.index.tree.body for name in _imported(node)]
    missing = [(view, node, name) for view, node, name in asked if _missing_part(library.root, view.file, name)]
    if not missing:
        return
    library.note_asked((ANYTHING,))
    reached = _reached(library, views[0].file)
    files = {*reached, *(one.file for one in views)}
    if any(_looks_elsewhere(library.files[one].data) for one in files if one in library.files):
        return
    names = names_below(library.root)
    if names is None or any(one.endswith(BUILT) for one in names):
        return
    stems = {one.partition(".")[0].lower() for one in names}
    ignored = _ignored(library.root)
    for view, node, name in missing:
        part = _missing_part(library.root, view.file, name)
        is_known = ignored is None or part.lower() in stems or part in ignored or GENERATED.search(part)
        first = name.partition(".")[0]
        if (
            view.file in reached
            and not is_known
            and not _may_be_required(library.root, first)
            and (name.split(".").index(part) > 1 or _is_used(library, view.file, first))
        ):
            yield Fact(FOUND, RUN, name, (view.place(node),))
            return


def _reached(library: Library, script: str) -> list[str]:
    """The script and the modules that are certainly imported when it starts: by statements at the top of files that
    are themselves reached so, and that mean the same file seen from the script and from where they stand."""
    graph = library.module_graph or ModuleGraph(library)
    found = {script: None}
    for file in (waiting := [script]):
        source = library.python(file)
        for node in source.tree.body if source is not None else ():
            for name, is_relative in _run_by(node):
                module = graph.file(name, file)
                is_same = module is not None and (is_relative or module == graph.file(name, script))
                if module is not None and is_same and module not in found and len(found) < MOST_FOLLOWED:
                    found[module] = None
                    waiting.append(module)
    return waiting


def _run_by(node: ast.stmt) -> Iterator[tuple[str, bool]]:
    """The modules that an import runs, packages before what lies in them, each with whether its name is relative;
    names in modules among them, which no file is called by."""
    if isinstance(node, ast.Import):
        names, dots = [one.name for one in node.names], ""
    elif isinstance(node, ast.ImportFrom):
        module, dots = node.module or "", "." * node.level
        names = [".".join(filter(None, (module, one.name))) for one in node.names]
    else:
        return
    for name in names:
        parts = name.split(".")
        for end in range(len(parts)):
            yield dots + ".".join(parts[: end + 1]), bool(dots)


def _looks_elsewhere(data: bytes) -> bool:
    """Whether a file changes sys.path, and not only to folders above its own, or what modules are found."""
    if STANDS_IN.search(data):
        return True
    lines = (one for one in data.splitlines() if CHANGES.search(one))
    return any(b"__file__" not in one and not ABOVE.search(one) for one in lines)


def _imported(node: ast.stmt) -> Iterator[str]:
    """The modules that a statement at the top of a file imports by their full names, without a condition."""
    if isinstance(node, ast.ImportFrom) and not node.level and node.module:
        yield node.module
    elif isinstance(node, ast.Import):
        yield from (one.name for one in node.names)


def _missing_part(root: Path, file: str, name: str) -> str:
    """The part of a module's name below a package of the project that names no file there; "" where there is none."""
    first, *rest = name.split(".")
    if first in LIBRARIES or not rest:
        return ""
    home = next((one for one in _homes(root, file) if _is_package(one / first)), None)
    if home is None or any(_is_there(one / f"{first}.py") for one in _homes(root, file)):
        return ""
    folder = home / first
    for part in rest:
        inner = _names_in(folder)
        if inner is None or any(one.partition(".")[0] == part and one != part for one in inner):
            return ""
        if part not in inner:
            return part
        folder /= part
    return ""


def _is_used(library: Library, file: str, package: str) -> bool:
    """Whether a script of the project imports a module of this package that is there: no library is called so."""
    pattern = re.compile(rb"^(?:from|import)\s+" + package.encode() + rb"\.(\w+)", re.MULTILINE)
    texts = (one.data for one in library.files.values() if one.syntax == "python")
    found = {match.decode() for text in texts for match in pattern.findall(text)}
    folders = [one / package for one in _homes(library.root, file)]
    return any(_is_there(folder / f"{name}.py") for folder in folders for name in found)


def _may_be_required(root: Path, package: str) -> bool:
    """Whether the project asks for an installed package of this name, whose modules may be meant; of what cannot be
    read, it may."""
    pattern = re.compile(rf"^[\s\-\"']*{re.escape(package)}\b", re.IGNORECASE | re.MULTILINE)
    texts = [_text(root / one) for one in _names_in(root) or () if REQUIREMENTS.fullmatch(one)]
    return any(one is None or pattern.search(one) for one in texts)


def _homes(root: Path, file: str) -> list[Path]:
    """The folders from which a file may import packages of the project, nearest first."""
    above = [str(one) for one in PurePosixPath(file).parents]
    return [root / posixpath.normpath(one) for one in (*above, "src")]


def _is_package(folder: Path) -> bool:
    return any(one.endswith(".py") for one in _names_in(folder) or ())


def _names_in(folder: Path) -> list[str] | None:
    """The names in a folder; None of what is none, or cannot be read."""
    try:
        return os.listdir(folder)  # noqa: PTH208
    except OSError:
        return None


def _is_there(file: Path) -> bool:
    # Path.exists raises an error for a name that the system does not allow.
    return os.path.exists(file)  # noqa: PTH110


def _text(file: Path) -> str | None:
    """What a regular file holds; "" where there is none, None of one that cannot be read."""
    if not os.path.lexists(file):
        return ""
    try:
        return reading.read(file, most_bytes=MOST_BYTES).decode(errors="replace")
    except OSError:
        return None


def _ignored(root: Path) -> frozenset[str] | None:
    """The words of .gitignore: what it names may lie beside the project's files. None where it cannot be read."""
    text = _text(root / ".gitignore")
    return frozenset(re.findall(r"\w+", text)) if text is not None else None
