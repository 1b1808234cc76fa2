"""What verify, tune and fit found, kept in the run folder that it is of: `report` prints it again."""

from __future__ import annotations

import contextlib
from pathlib import Path
from typing import TypeVar

from msgspec import ValidationError, convert, to_builtins
from msgspec.structs import replace

from autotune.collect import artefacts
from autotune.errors import UsageError
from autotune.model.fitted import Fitted
from autotune.model.tuned import Tuned
from autotune.model.verified import Verified

SEARCH, VERIFICATION, FIT = "searched.json", "verified.json", "fitted.json"
SCHEMA = 1

Result = TypeVar("Result", Tuned, Verified, Fitted)


def save_search(folder: Path, found: Tuned) -> None:
    """Keep a search in its run folder. It was printed: where it cannot be kept, it is only not printed again."""
    _save(folder / SEARCH, found)


def save_verification(folder: Path, found: Verified) -> None:
    """Keep the last verification of a run's patch in the folder of that run."""
    _save(folder / VERIFICATION, found)


def save_fit(folder: Path, found: Fitted) -> None:
    """Keep what fits in the folder of the run on fake tensors."""
    _save(folder / FIT, found)


def search(folder: Path) -> Tuned | None:
    """The search of a run folder; None where it is of no search, or of one that was not ended."""
    return _read(folder / SEARCH, Tuned)


def verification(folder: Path) -> Verified | None:
    """The last verification of a run's patch; None where there is none.

    A file of a project is data: the command that goes on with it is not taken from there.
    """
    found = _read(folder / VERIFICATION, Verified)
    return None if found is None else replace(found, resume_command="")


def fit(folder: Path) -> Fitted | None:
    """What `autotune fit` answered in a run's folder; None in the folder of another verb or of an unfinished run."""
    found = _read(folder / FIT, Fitted)
    return None if found is None else replace(found, run=folder.name)


def _save(file: Path, found: Tuned | Verified | Fitted) -> None:
    with contextlib.suppress(OSError, ValueError):
        artefacts.write_json(file, {"schema": SCHEMA, **to_builtins(found)})


def _read(file: Path, kind: type[Result]) -> Result | None:
    """Raises UsageError for a file that cannot be read, or is of another version."""
    if not file.is_file():
        return None
    row = artefacts.read_json(file)
    if not isinstance(row, dict) or row.pop("schema", None) != SCHEMA:
        raise UsageError("this result is of another version of autotune", where=str(file), to_do=_AGAIN)
    try:
        return convert(row, kind)
    except ValidationError as error:
        raise UsageError(f"this result cannot be read ({error})", where=str(file), to_do=_AGAIN) from error


_AGAIN = "Measure it again."
