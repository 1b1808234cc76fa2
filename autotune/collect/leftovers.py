"""Scratch folders that killed runs left behind. Nothing is deleted that a run of ours did not make."""

from __future__ import annotations

import shutil
from pathlib import Path

from autotune.collect.artefacts import MANIFEST, read_json, runs
from autotune.errors import UsageError
from autotune.machine import is_gone

SCRATCH_LIST = "scratch-folders"
"""In a run folder: the scratch folders of that run, "<device number> <absolute path>" a line, written by the probe."""


def remove_leftovers(root: Path) -> tuple[Path, ...]:
    """Delete the scratch folders of runs whose process is certainly gone; returns the deleted ones.

    A folder that cannot be deleted stays listed for the next time.
    """
    return tuple(folder for run in runs(root) if is_dead(run) for folder in remove_scratch(run))


def is_dead(run: Path) -> bool:
    """Whether the process that made `run` has certainly ended: "pid", "process_start", "host" in run.json.

    False in doubt: without a readable run.json, and for a run of another host on a shared disk.
    """
    try:
        manifest = read_json(run / MANIFEST)
    except UsageError:
        return False
    return isinstance(manifest, dict) and is_gone(manifest)


def remove_scratch(run: Path) -> tuple[Path, ...]:
    """Delete the scratch folders that `run` lists, then the list; returns what was deleted."""
    try:
        lines = (run / SCRATCH_LIST).read_text(encoding="utf-8").splitlines()
    except OSError:
        return ()
    listed = [Path(line.partition(" ")[2]) for line in lines]
    ours = [folder for folder in listed if is_scratch(folder, run)]
    deleted = tuple(folder for folder in ours if _delete(folder))
    if not any(folder.exists() for folder in ours):
        (run / SCRATCH_LIST).unlink(missing_ok=True)
    return deleted


def is_scratch(folder: Path, run: Path) -> bool:
    """Whether `folder` is named as a scratch folder of `run` is, and is not a link."""
    if not folder.is_absolute() or ".." in folder.parts or folder.is_symlink():
        return False
    at_home = folder.parent == run and folder.name.partition("-")[0] == "scratch"
    return at_home or folder.name.endswith(f".autotune-scratch-{run.name}")


def _delete(folder: Path) -> bool:
    if not folder.is_dir():
        return False
    shutil.rmtree(folder, ignore_errors=True)
    return not folder.exists()
