"""What autotune knows for itself, outside of every project: which patches and runs are its own.

    $XDG_STATE_HOME/autotune, else ~/.local/state/autotune            0700, of this user alone
      projects/<key>/project.json       the real path, device and inode that make the key
      projects/<key>/patches/           the journals of written patches (patch/journal.py)
      projects/<key>/runs               "<id> <inode>" of each run folder that was made here
      projects/<key>/verified/          the pairs of the last verifications, to go on from (verify/kept.py)
      projects/<key>/history.jsonl      what verifications said of predictions

A repository is data: a journal, a run or a study that lies in it is acted on only when it is known here. A project
that is copied or moved has another key.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import stat
from collections.abc import Collection, Mapping
from pathlib import Path

from autotune.errors import UsageError

MOST_RUNS = 10_000
"""Lines of the list of runs; the oldest are forgotten."""

_INODE = re.compile(r"[0-9]{1,20}")
_TO_DO = "Set XDG_STATE_HOME to a folder of your own; what undo needs is kept there."


def project(root: Path, environ: Mapping[str, str] = os.environ) -> Path:
    """The folder of the project at `root`, made where it is missing. Raises UsageError where it cannot be made, or
    others could write it."""
    folder = _folder(root, environ)
    try:
        for place in (folder.parents[1], folder.parent, folder):
            place.mkdir(mode=0o700, parents=True, exist_ok=True)
            _check(place)
        name = folder / "project.json"
        if not name.exists():
            name.write_text(json.dumps(_about(root)) + "\n", encoding="utf-8")
    except OSError as error:
        raise UsageError(f"it cannot be made: {error.strerror}", where=str(folder), to_do=_TO_DO) from error
    return folder


def known_project(root: Path, environ: Mapping[str, str] = os.environ) -> Path | None:
    """The folder of the project at `root` where there is one that can be relied on; nothing is made."""
    try:
        folder = _folder(root, environ)
        if not folder.is_dir():
            return None
        for place in (folder.parents[1], folder.parent, folder):
            _check(place)
    except (OSError, UsageError):
        return None
    return folder


def register_run(root: Path, run: Path) -> None:
    """Remember that `run` was made here. Raises OSError or UsageError where that cannot be kept."""
    with (project(root) / "runs").open("a", encoding="utf-8") as file:
        file.write(f"{run.name} {run.stat().st_ino}\n")


def own_runs(root: Path) -> frozenset[tuple[str, int]]:
    """Name and inode of each run folder of the project at `root` that was made here."""
    folder = known_project(root)
    if folder is None:
        return frozenset()
    try:
        lines = (folder / "runs").read_text(encoding="utf-8").splitlines()[-MOST_RUNS:]
    except (OSError, UnicodeDecodeError):
        return frozenset()
    rows = [line.split() for line in lines]
    return frozenset((row[0], int(row[1])) for row in rows if len(row) == 2 and _INODE.fullmatch(row[1]))


def is_own_run(run: Path, own: Collection[tuple[str, int]]) -> bool:
    """Whether a run folder is one of `own_runs`, and no link or other folder in its place."""
    try:
        about = run.lstat()
    except OSError:
        return False
    return stat.S_ISDIR(about.st_mode) and (run.name, about.st_ino) in own


def _folder(root: Path, environ: Mapping[str, str]) -> Path:
    text = json.dumps(_about(root), sort_keys=True)
    return _home(environ) / "projects" / hashlib.sha256(text.encode("utf-8", "surrogateescape")).hexdigest()[:24]


def _home(environ: Mapping[str, str]) -> Path:
    given = environ.get("XDG_STATE_HOME", "")
    # The specification: a path that is not absolute counts as none.
    base = Path(given) if given.startswith("/") else Path("~").expanduser() / ".local" / "state"
    return base / "autotune"


def _about(root: Path) -> dict[str, object]:
    real = root.resolve()
    about = real.stat()
    return {"path": str(real), "device": about.st_dev, "inode": about.st_ino}


def _check(folder: Path) -> None:
    """Raises UsageError for a folder of another user, or one that others may write."""
    about = folder.stat()
    if about.st_uid != os.geteuid():
        raise UsageError("this folder belongs to another user", where=str(folder), to_do=_TO_DO)
    if about.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
        raise UsageError("others may write this folder", where=str(folder), to_do=_TO_DO)
