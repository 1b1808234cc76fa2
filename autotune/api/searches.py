"""Searches on the disk: the run folder of each, with what another start of `tune` needs to go on with it."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from hashlib import sha256
from pathlib import Path
from typing import Any

from autotune.collect import artefacts
from autotune.errors import UsageError
from autotune.machine import identity
from autotune.scan.command import scan_command

STUDY = "study.db"
_KEY = "tune"


@dataclass(frozen=True, slots=True)
class Kept:
    """A search: its run `folder`, the storage `url` and the `name` of its study, and the run that was `diagnosed`.

    `diagnosed` is "" until the diagnosis is made; `is_shared` says that the storage is not in the folder.
    """

    folder: Path
    url: str
    name: str
    diagnosed: str = ""
    is_shared: bool = False


def new(root: Path, words: Sequence[str], asked: Iterable[str], url: str | None) -> Kept:
    """A search that begins now; `asked` are the options and `contents` that its trials depend on."""
    folder = artefacts.new_run(root)
    return _kept(folder, url, _name(words, asked))


def resumed(root: Path, words: Sequence[str], asked: Iterable[str], url: str | None) -> Kept:
    """The newest search of this command and these options that did not end.

    Raises UsageError when there is none, or its trials are not in the storage `url` (None: in its own).
    """
    name = _name(words, asked)
    for folder in reversed(artefacts.runs(root)):
        row = _row(folder)
        if row is not None and row["study"] == name and not row["ended"]:
            if row["shared"] != (url is not None):
                raise _elsewhere(folder, row["shared"])
            return replace(_kept(folder, url, name), diagnosed=row["diagnosed"])
    raise UsageError(
        "there is no interrupted search of this command with these options and files",
        where="--resume",
        to_do="Leave it out to begin one.",
    )


def _kept(folder: Path, url: str | None, name: str) -> Kept:
    return Kept(folder, url or f"sqlite:///{folder / STUDY}", name, is_shared=url is not None)


def _elsewhere(folder: Path, is_shared: bool) -> UsageError:
    """A URL may hold a password, so none is kept."""
    where = "the storage of --study" if is_shared else "its run folder"
    to_do = "Give it the same --study again." if is_shared else "Leave --study out, or leave --resume out."
    return UsageError(f"its trials are in {where}", where=f"--resume: {folder.name}", to_do=to_do)


def keep(search: Kept, *, ended: bool) -> None:
    """Write down where the search is."""
    row = {"study": search.name, "diagnosed": search.diagnosed, "ended": ended, "shared": search.is_shared}
    artefacts.write_json(search.folder / artefacts.MANIFEST, {**identity(), _KEY: row})


def contents(words: Sequence[str], cwd: Path, root: Path) -> str:
    """A digest of the script and configs that the command names: of other contents no trial is of use."""
    found = scan_command(words, cwd=cwd, root=root, versions={})
    paths = [path for name in sorted(found.files if found is not None else ()) if (path := root / name).is_file()]
    return sha256(b"".join(sha256(path.read_bytes()).digest() for path in paths)).hexdigest()


def diagnosed(run: Path) -> str:
    """The run that the search of this run folder diagnosed; "" where it is of no search."""
    row = _row(run)
    return str(row["diagnosed"]) if row is not None else ""


def _row(folder: Path) -> dict[str, Any] | None:
    try:
        row = artefacts.read_json(folder / artefacts.MANIFEST).get(_KEY)
    except (UsageError, AttributeError):
        return None
    return row if isinstance(row, dict) and {"study", "diagnosed", "ended", "shared"} <= row.keys() else None


def _name(words: Sequence[str], asked: Iterable[str]) -> str:
    """The same for tuners of one command; the command itself may hold secrets."""
    text = json.dumps([list(words), sorted(asked)])
    return f"autotune-{sha256(text.encode()).hexdigest()[:16]}"
