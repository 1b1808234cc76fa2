"""Applied patches: where their journals are, and which run proposed each."""

from __future__ import annotations

import re
from pathlib import Path

from autotune import state
from autotune.collect import artefacts
from autotune.patch.journal import ChangeName, PatchStore, journals, written_at
from autotune.patch.present import is_present

PATCHES = "patches"
"""The folder of the journals in a project's state; `undo` needs them."""

_TITLE = re.compile(r"\d+ of \d+ changes of run (\S+)")


def title(num_chosen: int, num_changes: int, run: str) -> str:
    """The title of an applied patch, which names the run that proposed it."""
    return f"{num_chosen} of {num_changes} changes of run {run}"


def run_of(title: str) -> str:
    """The run that proposed the applied patch of this title; "" where it names none."""
    found = _TITLE.fullmatch(title)
    return found[1] if found else ""


def written_by(root: Path, run: str) -> dict[ChangeName, int]:
    """The changes of a run that are in the files, each with the number of the patch that wrote it."""
    folder = state.known_project(root)
    of_run = [one for one in journals(folder / PATCHES) if run_of(one.title) == run] if folder is not None else []
    return {name: one.number for one in of_run if is_present(one) for name in one.changes}


def last_written_by(root: Path, run: str) -> float | None:
    """When the last of the patches of a run that are in the files was written, in seconds since the epoch; None where
    there is none."""
    folder = state.known_project(root)
    of_run = [one for one in journals(folder / PATCHES) if run_of(one.title) == run] if folder is not None else []
    return max((written_at(one) for one in of_run if is_present(one)), default=None)


def patch_store(cwd: Path) -> PatchStore | None:
    """The applied patches of the nearest folder from `cwd` upwards that has any. Without one, those of the project
    whose command was last typed in `cwd`."""
    start = cwd.resolve()
    elsewhere = state.other_folders(artefacts.project_root(cwd))
    for root in (start, *start.parents, *([elsewhere.parents[2]] if elsewhere is not None else [])):
        folder = state.known_project(root)
        if folder is not None and (folder / PATCHES).is_dir():
            return PatchStore(root, folder / PATCHES)
    return None
