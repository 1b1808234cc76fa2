"""Where runs live: `.autotune/runs/<id>/` at the project root. A write replaces a whole file or nothing."""

from __future__ import annotations

import contextlib
import json
import math
import os
import secrets
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from autotune import reading, state
from autotune.errors import UsageError
from autotune.reading import may_hold_project

MANIFEST = "run.json"
SEARCH = "tune"
"""Key of the manifest of a search."""

_ROOT_MARKS = (".git", "pyproject.toml")
FOLDER = ".autotune"
_LAST = "last"
_NUM_NAMED = 3
_LONGEST_NAME = 4096
_LONGEST_INT = 19


def project_root(cwd: Path) -> Path:
    """The nearest folder from `cwd` upwards with .git or pyproject.toml, else `cwd` itself.

    The search ends below a folder of another owner, or one that others may write (/tmp): what lies there is theirs.
    """
    start = cwd.absolute()
    for folder in (start, *start.parents):
        if folder != start and not may_hold_project(folder, start):
            return start
        if any((folder / mark).exists() for mark in _ROOT_MARKS):
            return folder
    return start


def command_root(cwd: Path, script: Path | None) -> Path:
    """The project of a command: that of `cwd`, but of a script that lies outside of it, and is this user's, its own.

    A link in the project stays there, wherever it leads: a clone does not choose where runs are written.
    """
    here = project_root(cwd)
    if script is None:
        return here
    real, real_here = Path(os.path.realpath(script)), os.path.realpath(here)
    is_inside = any(
        one.is_relative_to(real_here) for one in (real, Path(os.path.realpath(script.parent)) / script.name)
    )
    if is_inside or not _is_of_user(real):
        return here
    return project_root(real.parent)


def _is_of_user(script: Path) -> bool:
    """Whether a script is one that this user edits: in a folder of theirs, and in no place for installed packages."""
    folder = script.parent
    is_installed = bool({"site-packages", "dist-packages"} & set(script.parts))
    return not is_installed and os.access(folder, os.W_OK) and folder.stat().st_uid == os.geteuid()


def new_run(root: Path, now: float | None = None) -> Path:
    """Make and return a new run folder; ids sort by time (UTC). Raises UsageError when it cannot be made."""
    stamp = time.strftime("%Y%m%d-%H%M%S", time.gmtime(now))
    runs = root / FOLDER / "runs"
    folder = runs / f"{stamp}-{secrets.token_hex(3)}"
    try:
        for place in (runs.parent, runs):
            place.mkdir(parents=place == runs.parent, exist_ok=True)
            if place.is_symlink() or not place.is_dir():
                raise UsageError("it is a link or a file, not a folder of this project", where=str(place), to_do=_REAL)
        if not os.path.lexists(runs.parent / ".gitignore"):
            write_text(runs.parent / ".gitignore", "*\n")
        folder.mkdir()
    except OSError as error:
        raise _not_made(folder, error) from error
    # Without it `apply` asks before it trusts what lies there.
    with contextlib.suppress(OSError, UsageError):
        state.register_run(root, folder)
    return folder


_REAL = "Remove it: autotune writes only into a real folder of the project."


def runs(root: Path) -> tuple[Path, ...]:
    """The run folders of the project that were made here, the oldest first. Others beside them are data."""
    try:
        found = sorted((root / FOLDER / "runs").iterdir())
    except OSError:
        return ()
    own = state.registered_runs(root)
    return tuple(folder for folder in found if state.is_own_run(folder, own))


def mark_last(run: Path, cwd: Path | None = None) -> None:
    """Let "last" name `run`, a folder that `new_run` made; also in the project of `cwd`, where it was typed."""
    write_text(run.parents[1] / _LAST, run.name + "\n")
    here = project_root(cwd) if cwd is not None else None
    if here is not None and here.resolve() != run.parents[2].resolve():
        with contextlib.suppress(OSError, UsageError):
            state.register_folder(here, run)


def resolve(name: str, cwd: Path) -> Path:
    """The run folder or recording file that `report NAME` means: a path, "last", or a run id of this project.

    "last" is the newest run whose command was typed in `cwd`, else the newest of the project.
    Raises UsageError, which names the newest runs, when there is none.
    """
    root = project_root(cwd)
    path = cwd / name
    if name == _LAST:
        return _last(root, cwd)
    if path.is_file():
        return path
    elsewhere = state.other_folders(root)
    beside = [elsewhere.with_name(name)] if elsewhere is not None and name and "/" not in name else []
    for folder in (path, root / FOLDER / "runs" / name, *beside):
        if name and folder.is_dir():
            return _checked(folder)
    raise UsageError("there is no such run or recording", where=name, to_do=_choose(root))


def read_json(path: Path) -> Any:
    """The JSON in `path`; an unreadable one raises UsageError with the line and column of the fault.

    Numbers without an end, which JSON does not have, and integers of more than 64 bits are unreadable.
    """
    try:
        return json.loads(
            reading.read(path, follow=True), parse_constant=_no_number, parse_float=_float, parse_int=_int
        )
    except OSError as error:
        raise UsageError(f"cannot be read: {error.strerror}", where=str(path), to_do="Check the path.") from error
    except json.JSONDecodeError as error:
        place = f"{path}:{error.lineno}:{error.colno}"
        raise UsageError(f"this is not JSON: {error.msg}", where=place, to_do=_RECORD_AGAIN) from error
    except RecursionError as error:
        raise UsageError(
            "this is not JSON of autotune: nested too deeply", where=str(path), to_do=_RECORD_AGAIN
        ) from error
    except UnicodeDecodeError as error:
        raise UsageError(
            f"this is not JSON: byte {error.start} is not UTF-8", where=str(path), to_do=_RECORD_AGAIN
        ) from error


def diagnosed_by(run: Path) -> str:
    """The run that the search of this run folder diagnosed; "" where it is not the folder of a search."""
    try:
        row = read_json(run / MANIFEST).get(SEARCH)
    except (UsageError, AttributeError):
        return ""
    return str(row.get("diagnosed", "")) if isinstance(row, dict) else ""


def _no_number(text: str) -> float:
    raise json.JSONDecodeError(f"{text:.20} is not a supported number", text, 0)


def _float(text: str) -> float:
    value = float(text)
    return value if math.isfinite(value) else _no_number(text)


def _int(text: str) -> int:
    return int(text) if len(text) <= _LONGEST_INT else int(_no_number(text))


def write_json(path: Path, data: Mapping[str, Any], *, is_private: bool = False) -> None:
    """Write `data` to `path` atomically. NaN and infinity raise ValueError: JSON has no words for them."""
    text = json.dumps(data, allow_nan=False, ensure_ascii=False, separators=(",", ":")) + "\n"
    write_text(path, text, is_private=is_private)


def write_patch(file: Path, text: str) -> None:
    """Write the patch file of a run folder that `new_run` made, and remember its bytes: `apply` trusts no others."""
    write_text(file, text)
    with contextlib.suppress(OSError, UsageError):
        state.register_patch(file.parents[3], text.encode())


def write_text(path: Path, text: str, *, is_private: bool = False) -> None:
    """Write `text` to `path` in one step: a reader sees the whole old file or the whole new file.

    A private file is its user's alone; any other has the umask's mode.
    """
    descriptor, name = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
    try:
        with os.fdopen(descriptor, "w", encoding="utf-8") as file:
            file.write(text)
        # mkstemp makes private files; a run folder is as readable as the user's other files.
        if not is_private:
            Path(name).chmod(0o666 & ~_umask())
        Path(name).replace(path)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise


_RECORD_AGAIN = "The file is damaged or is not a recording. Record again: autotune diagnose SCRIPT"


def _not_made(folder: Path, error: OSError) -> UsageError:
    return UsageError(
        f"this folder cannot be made: {error.strerror}",
        where=str(folder),
        to_do="Start autotune in a folder that you can write to.",
    )


def _last(root: Path, cwd: Path) -> Path:
    newest, here = _newest(root), cwd.resolve()
    if state.folders(newest.parents[2]).get(newest.name, here).resolve() == here:
        return newest
    typed_in = state.folders(root)
    own = (run for run in reversed(runs(root)) if typed_in.get(run.name) == here and any(run.glob("*.json")))
    return next(own, newest)


def newest_run_elsewhere(cwd: Path) -> Path | None:
    """The newest run of the project, if `last` means an older run that was started in `cwd`; else None."""
    root = project_root(cwd)
    newest = _newest(root)
    return None if newest == _last(root, cwd) else newest


def _newest(root: Path) -> Path:
    """The newest of what was measured here, and of what was measured elsewhere by a command that was typed here."""
    elsewhere = state.other_folders(root)
    if elsewhere is not None and elsewhere.is_dir() and elsewhere.name > _last_name(root):
        return _checked(elsewhere)
    return _last_here(root)


def _last_name(root: Path) -> str:
    try:
        return _last_here(root).name
    except UsageError:
        return ""


def _last_here(root: Path) -> Path:
    try:
        name = reading.read(root / FOLDER / _LAST, most_bytes=_LONGEST_NAME).decode("utf-8").strip()
    except (OSError, UnicodeDecodeError):
        what = "no diagnosis of this project has finished" if runs(root) else "this project has no run yet"
        raise UsageError(what, where=str(root), to_do=_choose(root)) from None
    folder = root / FOLDER / "runs" / name
    if not name or "/" in name or name == ".." or "\0" in name or not folder.is_dir():
        raise UsageError("the last run was deleted", where=str(folder), to_do=_choose(root))
    return _checked(folder)


def _checked(folder: Path) -> Path:
    if not any(folder.glob("*.json")) and not any(folder.glob("part-*/*.json")):
        raise UsageError("there is no recording in this folder", where=str(folder), to_do=_RECORD_AGAIN)
    return folder


def _choose(root: Path) -> str:
    newest = [run.name for run in runs(root)[: -_NUM_NAMED - 1 : -1]]
    if not newest:
        return "Record one first: autotune diagnose SCRIPT"
    return f"The newest runs of {root} are: {', '.join(newest)}"


def _umask() -> int:
    """The process's umask. Where the system does not tell, it can only be read by setting it, for all threads."""
    with contextlib.suppress(OSError):
        for line in Path("/proc/self/status").read_text(encoding="ascii", errors="replace").splitlines():
            if line.startswith("Umask:"):
                return int(line.split()[1], 8)
    mask = os.umask(0o077)
    os.umask(mask)
    return mask
