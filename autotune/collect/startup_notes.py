"""What a process wrote of its start-up every five seconds: all that one leaves that was ended before its first step."""

from __future__ import annotations

from pathlib import Path

import msgspec

from autotune.model.recording import StartUp


def read(folder: Path) -> StartUp | None:
    """The start-up of the process that trains, as far as it came; None where no process ran for five seconds.

    A launcher or a helper writes one too: the script runs code of the user's, so the longest of those that do.
    """
    found = [one for path in folder.glob("startup-*") if (one := _read(path)) is not None]
    return max(found, key=lambda one: (sum(row.ns for row in one.rows if row.file), _ns(one)), default=None)


def _read(path: Path) -> StartUp | None:
    try:
        return msgspec.json.decode(path.read_bytes(), type=StartUp)
    except (OSError, ValueError):  # being replaced at this moment
        return None


def _ns(one: StartUp) -> int:
    return sum(row.ns for row in one.rows)
