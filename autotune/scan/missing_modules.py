"""Modules of its own that a run imports and that the project does not hold: renamed, moved, or never committed."""

from __future__ import annotations

import ast
import posixpath
import re
from collections.abc import Iterator, Sequence
from pathlib import Path, PurePosixPath

from autotune.model.evidence import RUN, Fact
from autotune.pycode.script_view import ScriptView
from autotune.scan.library import ANYTHING, Library
from autotune.scan.missing_scripts import names_below
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

ABOVE = re.compile(rb"""["']\.{0,2}/?["']|getcwd\(\)""")
"""The folder of the project, as scripts add it to sys.path."""

GENERATED = re.compile(r"^_|version|config|settings|secret|credential|local", re.IGNORECASE)
"""How modules are called that a build or the user writes."""


def facts(library: Library, views: Sequence[ScriptView]) -> Iterator[Fact]:
    """Fact `code.lacks_module` of a script and the modules of its own, where one of them certainly imports such a
    module; of a package alone that holds the module's folder, or from which the project imports others that are there.
    """
    if any(_looks_elsewhere(library.files[one.file].data) for one in views if one.file in library.files):
        return
    asked = [(view, node, name) for view in views for node in view.index.tree.body for name in _imported(node)]
    missing = [(view, node, name) for view, node, name in asked if _missing_part(library.root, view.file, name)]
    if not missing:
        return
    library.note_asked((ANYTHING,))
    names = names_below(library.root)
    if names is None or any(one.endswith(BUILT) for one in names):
        return
    stems = {one.partition(".")[0].lower() for one in names}
    ignored = _ignored(library.root)
    for view, node, name in missing:
        part = _missing_part(library.root, view.file, name)
        is_known = part.lower() in stems or part in ignored or GENERATED.search(part)
        first = name.partition(".")[0]
        if (
            not is_known
            and not _is_required(library.root, first)
            and (name.split(".").index(part) > 1 or _is_used(library, view.file, first))
        ):
            yield Fact(FOUND, RUN, name, (view.place(node),))
            return


def _looks_elsewhere(data: bytes) -> bool:
    """Whether a file changes sys.path, and not only to folders above its own."""
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
    if first in LIBRARIES:
        return ""
    home = next((one for one in _homes(root, file) if _is_package(one / first)), None)
    if home is None or not rest or any((one / f"{first}.py").exists() for one in _homes(root, file)):
        return ""
    folder = home / first
    for part in rest:
        if not folder.is_dir():
            return ""
        if (folder / part).is_dir():
            folder /= part
        elif any(one.name.partition(".")[0] == part for one in folder.iterdir()):
            return ""
        else:
            return part
    return ""


def _is_used(library: Library, file: str, package: str) -> bool:
    """Whether a script of the project imports a module of this package that is there: no library is called so."""
    pattern = re.compile(rb"^(?:from|import)\s+" + package.encode() + rb"\.(\w+)", re.MULTILINE)
    texts = (one.data for one in library.files.values() if one.syntax == "python")
    found = {match.decode() for text in texts for match in pattern.findall(text)}
    folders = [one / package for one in _homes(library.root, file)]
    return any((folder / f"{name}.py").is_file() for folder in folders for name in found)


def _is_required(root: Path, package: str) -> bool:
    """Whether the project asks for an installed package of this name, whose modules may be meant."""
    names = (one for one in root.iterdir() if one.is_file() and REQUIREMENTS.fullmatch(one.name))
    pattern = re.compile(rf"^[\s\-\"']*{re.escape(package)}\b", re.IGNORECASE | re.MULTILINE)
    return any(pattern.search(one.read_text(encoding="utf-8", errors="replace")) for one in names)


def _homes(root: Path, file: str) -> list[Path]:
    """The folders from which a file may import packages of the project, nearest first."""
    above = [str(one) for one in PurePosixPath(file).parents]
    return [root / posixpath.normpath(one) for one in (*above, "src")]


def _is_package(folder: Path) -> bool:
    return folder.is_dir() and any(one.suffix == ".py" for one in folder.iterdir())


def _ignored(root: Path) -> frozenset[str]:
    """The words of .gitignore: what it names may lie beside the project's files."""
    file = root / ".gitignore"
    text = file.read_text(encoding="utf-8", errors="replace") if file.is_file() else ""
    return frozenset(re.findall(r"\w+", text))
