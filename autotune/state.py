"""What autotune knows for itself, outside of every project: which patches and runs are its own.

    $XDG_STATE_HOME/autotune, else ~/.local/state/autotune            0700, of this user alone
      projects/<key>/project.json       the real path and inode, which make the key, and the device
      projects/<key>/patches/           the journals of written patches (patch/journal.py)
      projects/<key>/runs               "<id> <inode>" of each run folder that was made here
      projects/<key>/patch-files        the SHA-256 of each patch file that was made here
      projects/<key>/commands.jsonl     the command of each run, and the folder where it was typed
      projects/<key>/elsewhere          the last run of another project whose command was typed in this one
      projects/<key>/verified/          the pairs of the last verifications, to go on from (verify/pair_store.py)
      projects/<key>/history.jsonl      what verifications said of predictions

Every command imports this module, and nearly none needs hashlib or json: the functions that do import them.

A repository is data: a journal, a run or a study that lies in it is acted on only when it is known here. A project
that is copied or moved has another key.
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import Path

from autotune.errors import UsageError

MOST_RUNS = 10_000
"""Lines of a list that are read: the newest."""

_INODE = re.compile(r"[0-9]{1,20}")
_TO_DO = "Set XDG_STATE_HOME to a folder of your own; the data for undo is stored there."


def project(root: Path, environ: Mapping[str, str] = os.environ) -> Path:
    """The folder of the project at `root`, made where it is missing. Raises UsageError where it cannot be made, or
    others could write it."""
    import json

    folder = _folder(root, environ)
    try:
        for place in (folder.parents[1], folder.parent, folder):
            place.mkdir(mode=0o700, parents=True, exist_ok=True)
            _check(place)
        _check_above(folder.parents[1])
        name = folder / "project.json"
        if not name.exists():
            name.write_text(json.dumps(_about(root)) + "\n", encoding="utf-8")
    except OSError as error:
        raise UsageError(f"it cannot be made: {error.strerror}", where=str(folder), to_do=_TO_DO) from error
    return folder


def known_project(root: Path, environ: Mapping[str, str] = os.environ) -> Path | None:
    """The folder of the project at `root` where there is one that can be relied on; nothing is made."""
    try:
        if not (_home(environ) / "projects").is_dir():
            return None
        folder = _folder(root, environ)
        if not folder.is_dir():
            return None
        for place in (folder.parents[1], folder.parent, folder):
            _check(place)
        _check_above(folder.parents[1])
    except (OSError, UsageError):
        return None
    return folder


def why_unkept(root: Path, environ: Mapping[str, str] = os.environ) -> str:
    """Why nothing can be remembered of the project at `root`, "" where it can."""
    try:
        folder = project(root, environ)
    except UsageError as error:
        return f"{error.where}: {error.what}" if error.where else error.what
    return "" if os.access(folder, os.W_OK) else f"{folder}: this folder cannot be written"


def projects(environ: Mapping[str, str] = os.environ) -> Iterator[Path]:
    """The roots of all known projects that are still where they were."""
    import json

    for file in sorted((_home(environ) / "projects").glob("*/project.json")):
        try:
            root = Path(json.loads(file.read_text(encoding="utf-8"))["path"])
            is_there = root.is_absolute() and known_project(root, environ) == file.parent
        except (OSError, ValueError, KeyError, TypeError):
            continue
        if is_there:
            yield root


def register_patch(root: Path, data: bytes) -> None:
    """Remember the bytes of a patch file that was made here. Raises OSError or UsageError where that cannot be kept."""
    import hashlib

    with (project(root) / "patch-files").open("a", encoding="utf-8") as file:
        file.write(f"{hashlib.sha256(data).hexdigest()}\n")


def is_own_patch(root: Path, data: bytes) -> bool:
    """Whether a patch file of the project at `root` has the bytes of one that was made here."""
    import hashlib

    return hashlib.sha256(data).hexdigest() in _lines(root, "patch-files")


def register_run(root: Path, run: Path) -> None:
    """Remember that `run` was made here. Raises OSError or UsageError where that cannot be kept."""
    with (project(root) / "runs").open("a", encoding="utf-8") as file:
        file.write(f"{run.name} {run.stat().st_ino}\n")


def registered_runs(root: Path) -> frozenset[tuple[str, int]]:
    """Name and inode of each run folder of the project at `root` that was made here."""
    rows = [line.split() for line in _lines(root, "runs")]
    return frozenset((row[0], int(row[1])) for row in rows if len(row) == 2 and _INODE.fullmatch(row[1]))


def is_own_run(run: Path, own: Collection[tuple[str, int]]) -> bool:
    """Whether a run folder is one of `own` (of `registered_runs`), and no link or other folder in its place."""
    try:
        about = run.lstat()
    except OSError:
        return False
    return stat.S_ISDIR(about.st_mode) and (run.name, about.st_ino) in own


def store_command(root: Path, run: str, words: Sequence[str], cwd: Path, python: str | None) -> None:
    """Remember what run `run` of the project at `root` started, where, and with which --python. Raises OSError or
    UsageError where that cannot be kept. Who calls it leaves out words that may hold a secret: all, then."""
    import json

    line = json.dumps({"run": run, "words": list(words), "cwd": str(cwd), "python": python})
    with (project(root) / "commands.jsonl").open("a", encoding="utf-8") as file:
        file.write(line + "\n")


def commands(root: Path) -> Mapping[str, tuple[tuple[str, ...], Path, str | None]]:
    """The words of each run that are remembered, the folder where they were typed, and --python, by the run's name."""
    return {row[0]: row[1:] for row in _commands(root) if row[1]}


def folders(root: Path) -> Mapping[str, Path]:
    """The folder where the command of each run was typed, by the run's name; also of commands that are not kept."""
    return {name: cwd for name, _, cwd, _ in _commands(root)}


def _commands(root: Path) -> Iterator[_Row]:
    rows = map(_command, _lines(root, "commands.jsonl"))
    return (row for row in rows if row is not None)


_Row = tuple[str, tuple[str, ...], Path, str | None]


def register_folder(root: Path, run: Path) -> None:
    """Remember that `run`, of another project, was asked for in the project at `root`. Raises OSError or UsageError."""
    (project(root) / "elsewhere").write_text(f"{run.resolve()}\n", encoding="utf-8")


def other_folders(root: Path) -> Path | None:
    """The run of another project that was last asked for in the project at `root`, if it was made here."""
    line = next(iter(_lines(root, "elsewhere")), "")
    run = Path(line)
    if not run.is_absolute() or len(run.parents) < 3:
        return None
    return run if is_own_run(run, registered_runs(run.parents[2])) else None


def _command(line: str) -> _Row | None:
    import json

    try:
        row = json.loads(line)
        run, words, cwd, python = row["run"], row["words"], row["cwd"], row["python"]
    except (ValueError, KeyError, TypeError):
        return None
    is_whole = isinstance(words, list) and all(isinstance(one, str) for one in (run, cwd, python or "", *words))
    return (run, tuple(words), Path(cwd), python) if is_whole else None


def _lines(root: Path, name: str) -> list[str]:
    """The lines of a file of the project's state; none where there is no such file that can be relied on."""
    folder = known_project(root)
    try:
        return [] if folder is None else (folder / name).read_text(encoding="utf-8").splitlines()[-MOST_RUNS:]
    except (OSError, UnicodeDecodeError):
        return []


def _folder(root: Path, environ: Mapping[str, str]) -> Path:
    # Without the device: its number may be another one after the next mount, and undo has to work then, too.
    import hashlib
    import json

    about = _about(root)
    text = json.dumps({name: about[name] for name in ("path", "inode")}, sort_keys=True)
    return _home(environ) / "projects" / hashlib.sha256(text.encode("utf-8", "surrogateescape")).hexdigest()[:24]


def _home(environ: Mapping[str, str]) -> Path:
    given = environ.get("XDG_STATE_HOME", "")
    # The specification: a path that is not absolute counts as none.
    if given.startswith("/"):
        return Path(given) / "autotune"
    try:
        return Path("~").expanduser() / ".local" / "state" / "autotune"
    except RuntimeError as error:
        raise UsageError("this user has no home folder", to_do=_TO_DO) from error


def _about(root: Path) -> dict[str, object]:
    real = root.resolve()
    about = real.stat()
    return {"path": str(real), "device": about.st_dev, "inode": about.st_ino}


def _check(folder: Path) -> None:
    """Raises UsageError for a folder of another user, one that others may write, or a link."""
    about = folder.lstat()
    if not stat.S_ISDIR(about.st_mode):
        raise UsageError("this is not a folder", where=str(folder), to_do=_TO_DO)
    if not hasattr(os, "geteuid"):  # Windows keeps others out of a user's folder by other means than the mode
        return
    if about.st_uid != os.geteuid():
        raise UsageError("this folder belongs to another user", where=str(folder), to_do=_TO_DO)
    if about.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
        raise UsageError("other users can write to this folder", where=str(folder), to_do=_TO_DO)


def _check_above(folder: Path) -> None:
    """Raises UsageError where everybody may put another folder in the place of `folder`."""
    for above in folder.resolve().parents:
        mode = above.stat().st_mode
        if mode & stat.S_IWOTH and not mode & stat.S_ISVTX:
            raise UsageError(
                "everyone can write to this folder, a parent of autotune's own", where=str(above), to_do=_TO_DO
            )
