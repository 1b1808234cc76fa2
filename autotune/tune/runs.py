"""The run folder of a search, and what `--resume` needs to continue it."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from hashlib import sha256
from pathlib import Path
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from autotune.collect import artefacts
from autotune.errors import UsageError
from autotune.machine import identity
from autotune.scan.command import scan_command
from autotune.tune.study import JOURNAL

STUDY = "study.journal"
SQLITE = "study.db"
"""The study of earlier versions, which --resume continues."""


class SearchRun(Struct, frozen=True):
    """A search on the disk."""

    folder: Path

    storage: str
    """Of its study."""

    name: str
    """Of its study."""

    diagnosed: str = ""
    """The run that was diagnosed; "" until the diagnosis is made."""

    is_shared: bool = False
    """Whether the storage is not in the folder: other tuners may use it."""

    launch: str = ""
    """A digest of the launch command, which may hold secrets; "" where trials run on this machine."""


def new(
    root: Path, words: Sequence[str], asked: Iterable[str], storage: str | None, launch: str | None = None
) -> SearchRun:
    """A search that begins now. `asked` are the options and `contents` on which its trials depend."""
    found = _search_run(artefacts.new_run(root), storage, _name(words, asked))
    return replace(found, launch=_digest(launch))


def resumed(
    root: Path, words: Sequence[str], asked: Iterable[str], storage: str | None, launch: str | None = None
) -> SearchRun:
    """The newest search of this command and these options that did not end.

    Raises UsageError when there is none, its trials are in another storage (None: that of its folder), or another
    launch command started them (None: they ran on this machine).
    """
    name = _name(words, asked)
    for folder in reversed(artefacts.runs(root)):
        row = _row(folder)
        if row is not None and row["study"] == name and not row["ended"]:
            if row["shared"] != (storage is not None):
                raise _elsewhere(folder, row["shared"])
            if row.get("launch", "") != _digest(launch):
                raise _launched_otherwise(folder, bool(row.get("launch")))
            return replace(_search_run(folder, storage, name), diagnosed=row["diagnosed"], launch=_digest(launch))
    raise UsageError(
        "there is no interrupted search of this command with these options and files",
        where="--resume",
        to_do="Leave it out to begin one.",
    )


def save(search: SearchRun, *, ended: bool) -> None:
    """Write the manifest of the search."""
    row = {
        "study": search.name,
        "diagnosed": search.diagnosed,
        "ended": ended,
        "shared": search.is_shared,
        "launch": search.launch,
    }
    artefacts.write_json(search.folder / artefacts.MANIFEST, {**identity(), artefacts.SEARCH: row})


def contents(words: Sequence[str], cwd: Path, root: Path) -> str:
    """A digest of the script and configs that the command names: a trial is valid for their contents only."""
    found = scan_command(words, cwd=cwd, root=root, versions={})
    paths = [path for name in sorted(found.files if found is not None else ()) if (path := root / name).is_file()]
    return sha256(b"".join(sha256(path.read_bytes()).digest() for path in paths)).hexdigest()


def _search_run(folder: Path, storage: str | None, name: str) -> SearchRun:
    is_old = (folder / SQLITE).is_file()
    own = f"sqlite:///{folder / SQLITE}" if is_old else f"{JOURNAL}{folder / STUDY}"
    return SearchRun(folder, storage or own, name, is_shared=storage is not None)


def _elsewhere(folder: Path, is_shared: bool) -> UsageError:
    """A URL may hold a password, so none is written down."""
    where = "the storage of --study" if is_shared else "its run folder"
    to_do = "Give it the same --study again." if is_shared else "Leave --study out, or leave --resume out."
    return UsageError(f"its trials are in {where}", where=f"--resume: {folder.name}", to_do=to_do)


def _launched_otherwise(folder: Path, was_launched: bool) -> UsageError:
    """Trials of other machines cannot be compared with these."""
    what = "another --launch started its trials" if was_launched else "its trials ran on this machine"
    to_do = "Give it the same --launch again." if was_launched else "Leave --launch out, or leave --resume out."
    return UsageError(what, where=f"--resume: {folder.name}", to_do=to_do)


def _row(folder: Path) -> dict[str, Any] | None:
    try:
        row = artefacts.read_json(folder / artefacts.MANIFEST).get(artefacts.SEARCH)
    except (UsageError, AttributeError):
        return None
    return row if isinstance(row, dict) and {"study", "diagnosed", "ended", "shared"} <= row.keys() else None


def _name(words: Sequence[str], asked: Iterable[str]) -> str:
    """The same for all tuners of a command. It is a digest, because the command may hold secrets."""
    return f"autotune-{_digest(json.dumps([list(words), sorted(asked)]))}"


def _digest(text: str | None) -> str:
    return sha256(text.encode()).hexdigest()[:16] if text is not None else ""
