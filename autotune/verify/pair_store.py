"""The pairs of a verification, kept as they are made: another one of the same command and change goes on from them.

`verified/<key>.json` in the state of the project; the key is of the command and the contents of what differs. What else
has to be the same are `conditions`: the machine, the interpreter and its installed packages, the environment's
variables that libraries read, and every other file of code or settings in the project.
"""

from __future__ import annotations

import json
import os
import platform
from collections.abc import Iterator, Mapping
from contextlib import suppress
from hashlib import sha256
from itertools import islice
from pathlib import Path
from typing import Any

from msgspec import Struct, convert, to_builtins

from autotune import machine, state
from autotune.errors import UsageError
from autotune.machine import limits
from autotune.model.verified import Resume, RunResult, Schedule
from autotune.verify.scratch import COPIED, LEFT_OUT, LINKED, MOST_COPIED_BYTES, MOST_ENTRIES
from autotune.verify.sides import Sides

SCHEMA = 2
FOLDER = "verified"
MOST_KEPT = 20
"""Verifications of a project; the oldest are forgotten."""

READ_BY_LIBRARIES = ("OMP_", "GOMP_", "KMP_", "MKL_", "OPENBLAS_", "TORCH", "PYTORCH_", "CUDA_", "NCCL_", "PYTHON",
                     "TOKENIZERS_", "HF_", "LD_PRELOAD", "MALLOC_")  # fmt: skip
"""What the names of such variables begin with."""

MOMENTARY = ("machine.load", "machine.memory_available_bytes")
"""Facts of the machine that are others a second later."""

NUM_NAMED = 3
_BEGIN = "Leave it out to start one."


class StoredVerification(Struct, frozen=True):
    """Where a verification is. `planned` is None before the first pair, `looks` how often its starts were judged.

    `notes` are what the rehearsals told. Of a save and a resume: `trial_why` says why none can be tried ("": it can),
    `trial_s` what it costs, and `resume` what came of it.
    """

    conditions: Mapping[str, str]
    hash_seed: str = ""
    rehearsed: tuple[RunResult, ...] = ()
    notes: tuple[str, ...] = ()
    planned: Schedule | None = None
    starts: tuple[RunResult, ...] = ()
    looks: int = 0
    trial_why: str = ""
    trial_s: float = 0.0
    resume: Resume | None = None

    @property
    def plan(self) -> Schedule:
        """The plan of pairs. Raises ValueError before there is one."""
        if self.planned is None:
            raise ValueError("no pair was planned")
        return self.planned


class VerificationFile(Struct):
    """The file of one verification; `why_not` says why it could not be written, "" while it could."""

    root: Path
    key: str
    why_not: str = ""

    def load(self) -> StoredVerification | None:
        """What is kept; None for nothing, or a file that this version cannot read."""
        folder = state.known_project(self.root)
        try:
            return _kept(json.loads((folder / FOLDER / self._name).read_bytes())) if folder is not None else None
        except (OSError, ValueError, KeyError, TypeError, AttributeError):
            return None

    def save(self, kept: StoredVerification) -> None:
        """Keep it in the place of what was there; a verification goes on where that cannot be done."""
        try:
            folder = state.project(self.root) / FOLDER
            folder.mkdir(mode=0o700, exist_ok=True)
            part = folder / f"{self._name}.part"
            part.write_text(json.dumps({"schema": SCHEMA, **to_builtins(kept)}), encoding="utf-8")
            part.replace(folder / self._name)
            _forget(folder)
        except (OSError, UsageError) as error:
            reason = error.strerror if isinstance(error, OSError) else error.what
            self.why_not = f"its pairs could not be stored ({reason}): --resume cannot continue from them"

    @property
    def _name(self) -> str:
        return f"{self.key}.json"


def place(root: Path, sides: Sides) -> VerificationFile:
    """The same for one command and one change, whether that is written by now or not."""
    words = {side: list(given) for side, given in sides.words.items()}
    files = {side: {str(path): _digest(data) for path, data in of.items()} for side, of in sides.files.items()}
    return VerificationFile(
        root, _digest(json.dumps([words, files], sort_keys=True).encode("utf-8", "surrogateescape"))[:24]
    )


def resumed(kept: StoredVerification | None, conditions: Mapping[str, str]) -> StoredVerification:
    """What another verification goes on from. Raises UsageError where there is nothing, or something changed since."""
    if kept is None:
        what = "this version of autotune stored no verification of this command and change"
        raise UsageError(what, where="--resume", to_do=_BEGIN)
    names = sorted(
        name for name in {*kept.conditions, *conditions} if kept.conditions.get(name) != conditions.get(name)
    )
    if names:
        more = f" and {len(names) - NUM_NAMED} more" if len(names) > NUM_NAMED else ""
        what = f"different from the stored verification: {', '.join(names[:NUM_NAMED])}{more}"
        raise UsageError(what, where="--resume", to_do=_BEGIN)
    return kept


def conditions(root: Path, sides: Sides, python: str, environ: Mapping[str, str]) -> dict[str, str]:
    """What has to be the same, by names that a user understands; of files those of code and settings that are small."""
    known = {fact.name: fact.value for fact in limits.facts() if fact.name not in MOMENTARY}
    hardware = [platform.node(), known, [gpu.name for gpu in machine.read_gpus(environ=environ).devices]]
    variables = {name: value for name, value in environ.items() if name.startswith(READ_BY_LIBRARIES)}
    found = {
        "the machine": _digest(json.dumps(hardware, sort_keys=True).encode()),
        "the interpreter": os.path.realpath(python),
        "its installed packages": _digest(json.dumps(machine.software(python, environ), sort_keys=True).encode()),
        "the environment variables": _digest(json.dumps(variables, sort_keys=True).encode("utf-8", "replace")),
    }
    return found | dict(_files(root, sides))


def _files(root: Path, sides: Sides) -> Iterator[tuple[str, str]]:
    """Code and settings of the project, and what the commands name, beside the files that the change edits."""
    named = (Path(word) for words in sides.words.values() for word in words)
    outside = [path for path in dict.fromkeys(named) if path.is_absolute() and not path.is_relative_to(root)]
    for path in (*islice(_walk(root), MOST_ENTRIES), *filter(_is_small, outside)):
        if path.resolve() not in sides.edited:
            with suppress(OSError):
                yield os.path.relpath(path, root), _digest(path.read_bytes())


def _walk(root: Path) -> Iterator[Path]:
    for folder, below, names in os.walk(root):
        left_out = {name for name in below if name in LINKED | LEFT_OUT or (Path(folder, name) / "pyvenv.cfg").exists()}
        below[:] = sorted(name for name in below if name not in left_out)
        for path in (Path(folder, name) for name in sorted(names)):
            if path.suffix.lower() in COPIED and _is_small(path):
                yield path


def _is_small(path: Path) -> bool:
    try:
        return path.is_file() and path.stat().st_size <= MOST_COPIED_BYTES
    except OSError:
        return False


def _digest(data: bytes) -> str:
    return sha256(data).hexdigest()


def _forget(folder: Path) -> None:
    files = sorted(folder.glob("*.json"), key=lambda path: path.stat().st_mtime)
    for path in files[:-MOST_KEPT]:
        path.unlink(missing_ok=True)


def _kept(row: Mapping[str, Any]) -> StoredVerification:
    """Raises AttributeError, KeyError or ValueError for what this version does not write."""
    if row["schema"] != SCHEMA or row.keys() != {"schema", *StoredVerification.__struct_fields__}:
        raise ValueError(row["schema"])
    return convert(row, StoredVerification)
