"""Commands of launch scripts that start a training script which the project does not hold: renamed, or left out."""

from __future__ import annotations

import os
import posixpath
import re
from functools import lru_cache
from pathlib import Path

from autotune.invocation.shape import name
from autotune.model.evidence import RUN, Fact, Location
from autotune.scan.launch import CONTAINERS, Launch, dialect_of
from autotune.scan.library import ANYTHING, Library

TRAINS = re.compile(r"train|tune|sft|dpo|grpo|ppo|rlhf|distill", re.IGNORECASE)
"""What the name of a script that trains has in it, where its flags do not say it."""

LEAVES = rb"\bcd\s+(?!\.\.|\"?\$\(dirname|\"?\$\{?(?:SLURM_SUBMIT_DIR|PBS_O_WORKDIR))"
"""A command of a launch script that goes to a folder which may not be the project's."""

BRINGS_FILES = re.compile(
    rb"\b(?:clone|wget|curl|submodule|rsync|scp|unzip|tar|ln|cp|mv|tee|sed|module load|docker|apptainer|singularity)\b"
    rb"|\bcat\s*>|pip3? install|" + LEAVES
)
"""What of a launch script brings files that are not in the project, or goes where they are."""

MAX_FILES = 50_000
"""Files of a project whose names are read; a larger one may hold any script."""


def fact(library: Library, launch: Launch) -> Fact | None:
    """Fact `job.lacks_script`, where no file of the project is called like the script."""
    script, file = launch.script or "", library.files.get(launch.file)
    is_known = script.endswith(".py") and re.fullmatch(r"[\w./-]+", script) and not script.startswith(("/", ".."))
    if not is_known or file is None or file.syntax != "shell":
        return None
    if not TRAINS.search(posixpath.basename(script)) and dialect_of(launch) is None:
        return None
    is_elsewhere = any(word is None or name(word) in CONTAINERS for word in launch.before)
    if launch.folder or is_elsewhere or BRINGS_FILES.search(file.data):
        return None
    library.note_asked((ANYTHING,))
    there = names_below(library.root)
    if there is None or posixpath.basename(script) in there or not _is_of_project(library.root, launch, script):
        return None
    return Fact("job.lacks_script", RUN, script, (Location(launch.file, launch.line),))


@lru_cache(maxsize=4)
def names_below(root: Path) -> frozenset[str] | None:
    """The names of all files and folders of a project; None of one with submodules, and of too many."""
    found: set[str] = set()
    for _, folders, names in os.walk(root):
        folders[:] = [one for one in folders if one != ".git"]
        found.update(names, folders)
        if len(found) > MAX_FILES or ".gitmodules" in names:
            return None
    return frozenset(found)


def _is_of_project(root: Path, launch: Launch, script: str) -> bool:
    """Whether other code lies where the script would: a launch script alone may be for another project."""
    first, _, rest = posixpath.normpath(script).partition("/")
    homes = [root, root / posixpath.dirname(launch.file)]
    folders = [home / first for home in homes] if rest else homes
    # Path.is_dir raises an error for a name that the system does not allow.
    there = (one for one in folders if os.path.isdir(one))  # noqa: PTH112
    return any(next(one.rglob("*.py") if rest else one.glob("*.py"), None) for one in there)
