"""Scripts that import a module of the project that is not there: forgotten, renamed or never published."""

from __future__ import annotations

import ast
import os
import posixpath
import re
from collections.abc import Iterator, Sequence
from fnmatch import fnmatch
from functools import lru_cache
from pathlib import Path

from autotune import reading
from autotune.errors import UsageError
from autotune.model.evidence import RUN, Fact, Location
from autotune.scan.library import ANYTHING, Library
from autotune.scan.missing_scripts import LEAVES, names_below
from autotune.scan.requirements import requirements
from autotune.scan.script.run_training import LIBRARIES
from autotune.scan.sys_path import sys_path_folders

RUNS = re.compile(rb"\bsubprocess\b|\bos\.system\b")
"""What of a script may fetch modules."""

FINDS = re.compile(
    rb"\bsys\.modules\b|\bmeta_path\b|\bpath_hooks\b|\baddsitedir\b|\bos\.chdir\b|^from sys import .*\bpath\b",
    re.MULTILINE,
)
"""What of a file makes modules that no file holds, or has them found elsewhere."""

EXTENDS = re.compile(r"__path__|\bsys\.(?:modules|path|meta_path)\b|\bdeclare_namespace\b")
"""What of a package's `__init__` has its modules found elsewhere."""

COPIES = rb"\b(?:clone|wget|curl|submodule|rsync|scp|unzip|tar|ln|cp|mv|patch|tee)\b|\bcat\s*>|\bsetup\.py\b"

FETCHES = re.compile(COPIES + rb"|" + LEAVES)
"""What of a launch script brings modules that are not in the project, or goes where they are."""

BRINGING = re.compile(rf"{COPIES.decode()}|\binstall\b")
"""What of a line of commands brings what it names."""

ADDS_PATH = re.compile(
    r"(?<![\w${])PYTHONPATH[\"']?(?:\s*[=:]\s*|\s+(?![=:\s]))"
    r"(?!(?:[\"':]|\./?|\$\{?(?:PYTHONPATH|PWD)(?::-)?\}?|\$\(pwd\)|`pwd`)*(?:\s|$))"
)
"""A variable that has modules found in a folder that may not be the project's."""

BUILDS = ("setup.py", "setup.cfg", "pyproject.toml", "CMakeLists.txt", "Makefile", "meson.build")
"""Files that say which modules are built."""

PROSE = ("*.md", "*.rst", "README*", "INSTALL*")
"""Files that tell a person how to set the project up."""

COMMANDS = (
    *("*.sh", "*.bash", "*.slurm", "*.sbatch", "*.pbs", "Makefile"),
    *("Dockerfile*", "*.dockerfile", "*.def", ".env*"),
)
"""Files that tell a machine, line by line."""

REQUIREMENTS = ("*requirements*.txt", "env*.y*ml", "conda*.y*ml", "pyproject.toml", "setup.py", "setup.cfg")
"""Files that say which packages are installed."""

BRINGS = re.compile(
    r"clon(?:e|ing)|download|symlink|\blink|\bln\b|\bcop(?:y|ied)\b|\bcp\b|\bmv\b|\bmove|\bput\b|\bplaced?\b|\bcreat"
    r"|\bgenerate|\bbuild\b|\bcompil|\bextract|unzip|\btar\b|wget|\bcurl\b|\bfetch|submodule|\bobtain|\binstall",
    re.IGNORECASE,
)
"""What instructions say that bring a file or a folder into the project."""

GENERATED = re.compile(r"_|version$|.*_pb2(?:_grpc)?$")
"""How modules are called that a build writes."""

MAX_BYTES = 200_000
"""What is longer is no list of files to ignore, builds nothing and tells nobody what to do."""


def fact(library: Library, script: str, launch_file: str = "") -> Fact | None:
    """Fact `code.lacks_module` of a script, which a command in `launch_file` starts, if any.

    None where no module that it imports without a condition is certainly missing.
    """
    file, source = library.files.get(script), library.python(script)
    if file is None or source is None or not script.endswith(".py") or RUNS.search(file.data):
        return None
    starting = library.files.get(launch_file)
    if starting is not None and (
        FETCHES.search(starting.data) or ADDS_PATH.search(starting.data.decode(errors="replace"))
    ):
        return None
    for node in source.tree.body:
        for module, folder in _of_project(library, script, node):
            if not _may_be_there(library, folder, module):
                if any(_changes_imports(library, one) for one in (script, *_imported_before(library, script, node))):
                    return None
                place = Location(script, node.lineno, end_line=node.end_lineno or node.lineno)
                return Fact("code.lacks_module", RUN, module, (place,))
    return None


def _imported_before(library: Library, script: str, until: ast.stmt) -> Iterator[str]:
    """The files of the project that a script imports above a statement, but for what these import."""
    source = library.python(script)
    for node in source.tree.body if source is not None else ():
        if node is until:
            return
        names = [one.name for one in node.names] if isinstance(node, ast.Import) else []
        if isinstance(node, ast.ImportFrom):
            names = [node.module or "", *(f"{node.module or ''}.{one.name}" for one in node.names)]
        for name in (one.strip(".").replace(".", "/") for one in names):
            found = (
                library.find(f"{name}{end}", script, ("python",), is_wanted=True) for end in (".py", "/__init__.py")
            )
            yield from (one for one in found if one is not None and one != script)


def _changes_imports(library: Library, file: str) -> bool:
    """Whether a file makes modules, or has them found in a folder that may not be the project's."""
    source = library.python(file)
    if source is None or FINDS.search(library.files[file].data):
        return True
    return None in sys_path_folders(library, file, source.tree)


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
    (submodules, too many files), git is told to ignore it, a build makes it, its package finds modules elsewhere or is
    one that is installed, or a text of the project tells to bring it.
    """
    package, _, last = module.strip(".").rpartition(".")
    library.note_asked((ANYTHING,))
    there = names_below(library.root)
    is_package = (library.root / folder).is_dir() and any((library.root / folder).glob("*.py"))
    if there is None or not is_package or GENERATED.match(last):
        return True
    if any(name.partition(".")[0] == last for name in there):
        return True
    packages = package.split(".") if package else [posixpath.basename(folder)]
    around = [folder]
    for _ in packages[1:]:
        around.append(posixpath.dirname(around[-1]))
    if any(EXTENDS.search(_text(library.root, posixpath.join(one, "__init__.py"))) for one in around):
        return True
    return _is_ignored(library, posixpath.join(folder, last)) or any(
        _is_built(name, text, around[-1], packages, last) or _is_brought(name, text, packages, last)
        for name, text in _instructions(library.root)
    )


@lru_cache(maxsize=4)
def _instructions(root: Path) -> tuple[tuple[str, str], ...]:
    """The files of a project that say what is built, installed or to be done, each with its text."""
    found = []
    for folder, folders, names in os.walk(root):
        folders[:] = [one for one in folders if one != ".git"]
        for name in names:
            path = Path(folder, name).relative_to(root).as_posix()
            if name in BUILDS or _is_like(path, (*PROSE, *COMMANDS, *REQUIREMENTS)):
                found.append((path, _text(root, path)))
    return tuple(found)


def _is_built(name: str, text: str, top: str, packages: Sequence[str], last: str) -> bool:
    """Whether what a file builds may be a module of a package that lies in the folder `top`.

    It may where the file lies in that folder, names the module, or maps the package to another folder; a file of a
    folder beside it already where it names the package.
    """
    home, base = posixpath.split(name)
    if base not in BUILDS:
        return False
    if top and f"{home}/".startswith(f"{top}/"):
        return True
    is_around = not home or f"{top}/".startswith(f"{home}/")
    names = (last,) if is_around else (last, *packages)
    return bool(_spoken(names).search(text) or re.search(rf"[\"']{re.escape(packages[0])}[\"']\s*:", text))


def _is_brought(name: str, text: str, packages: Sequence[str], last: str) -> bool:
    """Whether a text installs a package of that name, brings a module or its package, tells a person to, or has modules
    found in other folders."""
    if _is_like(name, REQUIREMENTS):
        return _is_required(posixpath.basename(name), text, packages[0])
    if ADDS_PATH.search(text):
        return True
    spoken = _spoken((*packages, last))
    if _is_like(name, COMMANDS):
        lines = text.replace("\\\n", " ").splitlines()
        return any(spoken.search(one) and BRINGING.search(one) for one in lines)
    own = rf"\b{re.escape(packages[-1])}[./]{re.escape(last)}\b|\b{re.escape(last)}\.py\b"
    blocks = re.split(r"\n[ \t]*\n", text) if _is_like(name, PROSE) else []
    return any(spoken.search(one) and BRINGS.search(one) for one in blocks) or bool(blocks and re.search(own, text))


def _is_required(name: str, text: str, package: str) -> bool:
    """Whether a file of requirements asks for a package, from wherever it comes."""
    try:
        asked = [one.removeprefix("-e ").split()[:1] for one in requirements(text.encode(), name)]
    except UsageError:
        return True  # of what cannot be read nothing is certain
    spoken, words = _spoken((package,)), [word for words in asked for word in words if word[:1] != "#"]
    keys = re.findall(r"^\s*[\"']?([\w.-]+)[\"']?\s*=\s*[{\"']", text, re.MULTILINE) if name.endswith(".toml") else []
    return any(spoken.search(word) for word in words) or any(spoken.fullmatch(key) for key in keys)


def _is_like(name: str, patterns: Sequence[str]) -> bool:
    return any(fnmatch(one, pattern) for pattern in patterns for one in (name, posixpath.basename(name)))


def _spoken(names: Sequence[str]) -> re.Pattern[str]:
    """The names as words, however packages of these names are written: "segment-anything"."""
    words = "|".join(re.escape(one).replace("_", "[-_]") for one in names)
    return re.compile(rf"(?<![A-Za-z0-9_])(?:{words})(?![A-Za-z0-9_])", re.IGNORECASE)


def _is_ignored(library: Library, module: str) -> bool:
    """Whether git may be told to leave a module or a folder above it out of the repository."""
    parts = module.split("/")
    above = ["/".join(parts[:end]) for end in range(1, len(parts) + 1)]
    names = {*parts, f"{parts[-1]}.py", *above, f"{module}.py"}
    for folder in ("", *above[:-1]):
        for line in _text(library.root, posixpath.join(folder, ".gitignore")).splitlines():
            pattern = line.strip().strip("/").removeprefix("**/").removesuffix("/**").removesuffix("/*")
            if pattern and not line.startswith(("#", "!")) and any(fnmatch(name, pattern) for name in names):
                return True
            if pattern and any(name.endswith(f"/{pattern}") for name in names):
                return True
    return False


def _text(root: Path, name: str) -> str:
    """What a file below the root holds; "" where it is not there."""
    try:
        return reading.read(root / name, most_bytes=MAX_BYTES).decode(errors="replace")
    except OSError:
        return ""
