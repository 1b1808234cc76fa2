"""Scripts that no other file of a project names, in a project whose texts say what is started."""

from __future__ import annotations

import os
import posixpath
import re
from collections.abc import Iterator
from pathlib import Path

from msgspec import Struct

from autotune import reading
from autotune.model.source import SCRIPTS
from autotune.scan.files import SKIPPED_FOLDERS

TEXTS = (
    *(".md", ".rst", ".txt", ".sh", ".bash", ".slurm", ".sbatch", ".yaml", ".yml", ".toml", ".json", ".cfg", ".ini"),
    *(".py", ".ipynb", ".mk", "Makefile", "Dockerfile", "Justfile", "justfile"),
)
"""How the names of files end that may name a script."""

DATA = (".json", ".txt")
"""A large one of these is no text that names scripts."""

OF_CI = (".github", ".circleci", ".gitlab")
"""Hidden folders whose files start scripts."""

FILE = re.compile(rb"([\w.-]+)\.(?:py|ipynb)\b")
MODULES = re.compile(
    rb"^[ \t]*from[ \t]+([\w.]+)[ \t]+import[ \t]*\(?([\w, \t\n]+)"
    rb"|^[ \t]*import[ \t]+([\w., \t]+)|(?:^|[ \t])-m[ \t]+([\w.]+)|[\"']-m[\"'],\s*[\"']([\w.]+)"
    rb"|import_module\(\s*[\"']([\w.]+)|[\"']([\w.]+):\w+[\"']",
    re.MULTILINE,
)
"""Modules that are imported or started, entry points of a package among them."""

STARTS = re.compile(rb"\b(?:python3?|torchrun|launch|deepspeed|srun|uv run)\b[^\n]*\.py\b")
"""A command that starts a script."""

MOST_FILES, MOST_BYTES = 3_000, 500_000
"""Files of a project that are searched, and the most that one may have; of a larger project nothing is said."""


class NamedScripts(Struct):
    """Reads the texts of the project below `root` once, when it is first asked."""

    root: Path
    _by_name: dict[str, set[str]] | None = None
    _has_commands: bool = False
    _is_whole: bool = True

    def names_nowhere(self, script: str) -> bool:
        """Whether no other file names the script, by its file or as a module, and some text starts another one."""
        if self._by_name is None:
            self._by_name = {}
            self._read(self._by_name)
        stem = posixpath.basename(script).rpartition(".")[0]
        return self._is_whole and self._has_commands and not self._by_name.get(stem, set()) - {script}

    def _read(self, by_name: dict[str, set[str]]) -> None:
        for number, name in enumerate(_texts(self.root)):
            try:
                data = reading.read(self.root / name, most_bytes=MOST_BYTES)
            except OSError:
                data = None
            if number >= MOST_FILES or (data is None and not name.endswith(DATA)):
                self._is_whole = False
                return
            for stem in _named(data or b""):
                by_name.setdefault(stem, set()).add(name)
            self._has_commands |= not name.endswith(SCRIPTS) and STARTS.search(data or b"") is not None


def _texts(root: Path) -> Iterator[str]:
    for folder, inner, names in os.walk(root):
        inner[:] = sorted(
            one for one in inner if one not in SKIPPED_FOLDERS and (one in OF_CI or not one.startswith("."))
        )
        below = os.path.relpath(folder, root).replace(os.sep, "/")
        yield from (posixpath.normpath(f"{below}/{one}") for one in sorted(names) if one.endswith(TEXTS))


def _named(data: bytes) -> set[str]:
    """The stems of files and the parts of modules that a text names."""
    found = {one.decode() for one in FILE.findall(data)}
    for parts in MODULES.findall(data):
        found.update(re.findall(r"\w+", b" ".join(parts).decode()))
    return found
