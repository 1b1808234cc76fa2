"""The patch that `apply` was asked for: its file, its project, and whether autotune made it here."""

from __future__ import annotations

import os
import re
from pathlib import Path

from msgspec import Struct

from autotune import reading, state
from autotune.collect import artefacts
from autotune.errors import UsageError
from autotune.model.patch import Patch
from autotune.patch.file import NAME, loads

_RULE = re.compile(r"[A-Za-z]{2}\d{3}")


class PatchSource(Struct, frozen=True):
    """A patch, and the project at `root` whose files it changes. `doubt` says why it is not trusted, "" if it is."""

    patch: Patch
    root: Path
    doubt: str


def find(name: str, cwd: Path) -> PatchSource:
    """The patch of a run or a file. Raises UsageError if there is none, or if its project is not here."""
    file = _file(name, cwd)
    data = _read(file)
    patch = loads(data, str(file))
    root = _root(file, patch)
    return PatchSource(patch, root, _doubt(file, root, data))


def _file(name: str, cwd: Path) -> Path:
    try:
        path = artefacts.resolve(name, cwd)
    except UsageError as error:
        if _RULE.fullmatch(name):
            error.to_do = f"To write the change of one rule: `autotune apply --select {name.upper()}`."
        raise
    is_named = not path.is_dir()
    path = path if is_named else path / NAME
    if not (path.is_file() and (is_named or not path.is_symlink())):
        raise _no_patch(path.parent)
    return path


def _no_patch(run: Path) -> UsageError:
    if diagnosed := artefacts.diagnosed_by(run):
        return UsageError(
            "this search confirmed no candidate as faster, so it has no patch",
            where=str(run),
            to_do=f"`autotune report {diagnosed}` shows its diagnosis; "
            f"`autotune apply {diagnosed}` writes its changes.",
        )
    return UsageError(
        "this run has no patch: there was nothing to change",
        where=str(run),
        to_do="`autotune report last` shows what it found.",
    )


def _read(file: Path) -> bytes:
    try:
        return reading.read(file, follow=True)
    except OSError as error:
        raise UsageError(f"cannot be read: {error.strerror}", where=str(file), to_do="Check the path.") from error


def _root(file: Path, patch: Patch) -> Path:
    """The project of a patch: the owner of its run folder, or the project that the patch names.

    Raises UsageError when a patch in a run folder names another project, whose files it would change.
    """
    named = Path(patch.root)
    above = Path(os.path.normpath(file.absolute())).parents
    if len(above) > 3 and (above[2].name, above[1].name) == (".autotune", "runs"):
        if not named.is_absolute() or named.resolve() != above[3].resolve():
            raise UsageError(
                f"this patch was made for {named}, and lies in {above[3]}: the project was copied or moved",
                where=str(file),
                to_do="Diagnose again.",
            )
    elif not named.is_absolute() or not named.is_dir():
        raise UsageError(f"its root {patch.root!r} is not the absolute path of a folder", where=str(file))
    return named.resolve()


def _doubt(file: Path, root: Path, data: bytes) -> str:
    """Why a patch is not trusted: autotune did not make it here, or its root is not the project that holds it."""
    run = file.absolute().parent
    project = run.parents[2] if len(run.parents) > 2 else run
    if not state.is_own_run(run, state.registered_runs(project)):
        return f"autotune did not make this patch on this machine for this user: {file}"
    if not state.is_own_patch(project, data):
        return f"this patch was edited after autotune made it: {file}"
    if root != project.resolve():
        return f"this patch belongs to another project than {project}, in which it lies"
    return ""
