"""Recordings on disk: of a run that just ended, or named by --load."""

from __future__ import annotations

from pathlib import Path

from autotune.collect import job_parts
from autotune.collect.artefacts import read_json
from autotune.errors import UsageError
from autotune.model import recording as wire
from autotune.model.recording import Recording


def load(path: Path) -> tuple[Recording, ...]:
    """The Recordings in a run folder or in that of a job, or the one in a file; by rank. Raises UsageError for anything
    else.

    Processes that did no training (launchers) are left out when others did.
    """
    files = job_parts.recording_files(path) if path.is_dir() else [path]
    found = [_read(file) for file in files]
    trained = [one for one in found if one.window is not None] or [one for one in found if one.models] or found
    return tuple(sorted(trained, key=lambda one: (one.process["rank"], one.process["pid"])))


def _read(file: Path) -> Recording:
    data = read_json(file)
    try:
        return wire.from_json(data)
    except ValueError as error:
        raise UsageError(
            f"this is not a Recording that this version can read ({error})",
            where=str(file),
            to_do="Record again: autotune diagnose SCRIPT",
        ) from error
