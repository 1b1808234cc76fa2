"""The live status that the probe writes twice a second."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from msgspec import Struct


class Status(Struct, frozen=True):
    """What the training processes are at. `steps` made so far; `where` is the frame they are in, "" when unknown.

    `phase`: starting | warm-up | measuring | what-if.
    """

    elapsed_s: float = 0.0
    steps: int = 0
    phase: str = "starting"
    where: str = ""


def read(folder: Path, elapsed_s: float) -> Status:
    """The status of the process that got furthest."""
    rows = [row for path in folder.glob("status-*") if (row := _row(path)) is not None]
    if not rows:
        return Status(elapsed_s)
    best = max(rows, key=lambda row: int(row["steps"]))
    phase = "starting" if not best["steps"] else "warm-up" if best["warmup"] is None else "measuring"
    phase = "what-if" if best["over"] else phase
    where = f"{best['file']}:{best['line']} {best['function']}" if best["file"] else ""
    return Status(elapsed_s, best["steps"], phase, where)


def _row(path: Path) -> dict[str, Any] | None:
    try:
        row = json.loads(path.read_text("utf-8"))
    except (OSError, ValueError):  # being replaced at this moment
        return None
    return row if isinstance(row, dict) else None
