"""What killed runs left behind: scratch folders, a state half saved. Nothing is deleted that is not a run's of ours."""

from __future__ import annotations

import os
import secrets
import shutil
import stat
import tempfile
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from autotune.collect.artefacts import MANIFEST, read_json, runs
from autotune.collect.overlay_plan import SCRATCH, unlock
from autotune.errors import UsageError
from autotune.machine import is_gone

SCRATCH_LIST = "scratch-folders"
"""In a run folder: the scratch folders of that run, "<device number> <absolute path>" a line, written by the probe."""

SOCKETS = "sockets-folder"
"""In a run folder: the path of the folder for the sockets of the run's worker processes."""

SERIALISED = "serialised-*"
"""In a run folder: the state that a process of the script was saving when it was killed."""

_SOCKETS_NAME = "atmp-"


def remove_leftovers(root: Path) -> tuple[Path, ...]:
    """Delete the scratch folders of runs whose process is certainly gone; returns the deleted ones.

    A folder that cannot be deleted stays listed for the next time.
    """
    return tuple(folder for run in runs(root) if is_dead(run) for folder in remove_scratch(run))


def remove_abandoned(folder: Path) -> tuple[Path, ...]:
    """Delete the scratch in `folder` that the kernel layer of this user's dead runs left, of whichever project."""
    return tuple(path for path in folder.glob(SCRATCH + "*") if _is_abandoned(path) and _delete(path))


def _is_abandoned(scratch: Path) -> bool:
    """Nobody but the user may have been able to write into it."""
    try:
        about = scratch.lstat()
    except OSError:
        return False
    is_ours = about.st_uid == os.geteuid() and stat.S_ISDIR(about.st_mode) and not about.st_mode & 0o077
    return is_ours and is_dead(scratch)


def is_dead(run: Path) -> bool:
    """Whether the process that made `run`, a run folder or a scratch, has certainly ended.

    Its run.json says "pid", "process_start" and "host".
    False in doubt: without a readable run.json, and for a run of another host on a shared disk.
    """
    try:
        manifest = read_json(run / MANIFEST)
    except UsageError:
        return False
    return isinstance(manifest, dict) and is_gone(manifest)


def make_sockets(run: Path) -> None:
    """Make the folder for the sockets of `run`, which the probe gives to Python's multiprocessing.

    It would make its own, pymp-*, which a process that is killed leaves behind. The path of a socket may have about 100
    bytes: too few for a run folder, and this name is no longer than its own. Where it cannot be made it makes its own.
    """
    with suppress(OSError):
        folder = Path(tempfile.gettempdir(), _SOCKETS_NAME + secrets.token_hex(4))
        (run / SOCKETS).write_text(str(folder), encoding="utf-8")
        folder.mkdir(mode=0o700)


def remove_scratch(run: Path) -> tuple[Path, ...]:
    """Delete the scratch folders that `run` lists and that of its sockets, then the lists; returns what was deleted.

    A state that was being saved is deleted too.
    """
    for path in run.glob(SERIALISED):
        with suppress(OSError):
            path.unlink()
    return (
        *_remove(run / SCRATCH_LIST, scratch_folders(run)),
        *_remove(run / SOCKETS, [folder for folder in map(Path, _lines(run / SOCKETS)) if _is_sockets(folder)]),
    )


def scratch_folders(run: Path) -> list[Path]:
    """The folders in which the probe's hooks keep what the script wrote."""
    listed = [Path(line.partition(" ")[2]) for line in _lines(run / SCRATCH_LIST)]
    return [folder for folder in dict.fromkeys(listed) if is_scratch(folder, run)]


def _lines(path: Path) -> list[str]:
    try:
        text = path.read_text(encoding="utf-8", errors="surrogateescape")
    except OSError:
        return []
    return [line for line in text.split("\n") if line]


def _remove(list_of_them: Path, ours: Sequence[Path]) -> tuple[Path, ...]:
    deleted = tuple(folder for folder in ours if _delete(folder))
    if not any(folder.exists() for folder in ours):
        list_of_them.unlink(missing_ok=True)
    return deleted


def is_scratch(folder: Path, run: Path) -> bool:
    """Whether `folder` is named as a scratch folder of `run` is, and is not a link."""
    if not folder.is_absolute() or ".." in folder.parts or folder.is_symlink():
        return False
    at_home = folder.parent == run and folder.name.partition("-")[0] == "scratch"
    return at_home or folder.name.endswith(f".autotune-scratch-{run.name}")


def _is_sockets(folder: Path) -> bool:
    return folder.is_absolute() and folder.name.startswith(_SOCKETS_NAME) and not folder.is_symlink()


def _delete(folder: Path) -> bool:
    if not folder.is_dir():
        return False
    unlock(folder)
    shutil.rmtree(folder, ignore_errors=True)
    return not folder.exists()
