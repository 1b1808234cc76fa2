"""Predicted and measured speedups of this machine: `history.jsonl` of the project's state, one per line.

Of a verification, and of a job that was restarted with the changes `numbers` of a run and whose progress line was told:

{"schema": 1, "run": "...", "verdict": "faster", "predicted": [1.3, 1.2, 1.4], "measured": [1.31, 1.25, 1.36]}
{"schema": 1, "run": "...", "verdict": "kept", "numbers": [1], "predicted": [1.3, 1.2, 1.4], "measured": [1.29]}
"""

from __future__ import annotations

import json
import statistics
from collections.abc import Mapping, Sequence
from pathlib import Path

from msgspec import Struct
from msgspec.structs import replace

from autotune import state
from autotune.errors import UsageError
from autotune.model.finding import Gain
from autotune.model.verified import Estimate, Verdict, Verified

SCHEMA = 1
FILE = "history.jsonl"
"""In the state of the project."""


class Calibration(Struct, frozen=True):
    """Accuracy of predictions: their number, how many speedups lay in their range, the median relative error."""

    num: int
    num_inside: int
    median_error: float

    def __str__(self) -> str:
        noun = "prediction" if self.num == 1 else "predictions"
        return f"of {self.num} {noun} {self.num_inside} inside the range; median error {self.median_error:.0%}"


def record(root: Path, run: str, verified: Verified) -> Verified:
    """Add it to the history; with a note where that cannot be written."""
    try:
        append(root, run, verified.predicted, verified.verdict, verified.estimate)
    except (OSError, UsageError) as error:
        reason = error.strerror if isinstance(error, OSError) else error.what
        why = f"{FILE} could not be written ({reason}): this verification will not calibrate others"
        return replace(verified, notes=(*verified.notes, why))
    return verified


def append(root: Path, run: str, predicted: Gain | None, verdict: Verdict, measured: Estimate) -> None:
    """Add what was predicted and measured; nothing without a prediction (a bound is none), or without a verdict."""
    if predicted is None or predicted.basis == "bound" or verdict is Verdict.CANNOT_TELL:
        return
    row = {
        "schema": SCHEMA,
        "run": run,
        "verdict": verdict.value,
        "predicted": [predicted.speedup, predicted.low, predicted.high],
        "measured": [measured.speedup, measured.low, measured.high],
    }
    _write(root, row)


def append_promise(
    root: Path, run: str, numbers: Sequence[int], predicted: tuple[float, float, float], measured: float, is_kept: bool
) -> None:
    """Add what a restarted job shows: the speedup that was predicted of the changes `numbers`, with the ends of its
    interval, and that of the progress line. Of one run and the same changes the last line counts. Raises OSError."""
    row = {
        "schema": SCHEMA,
        "run": run,
        "verdict": "kept" if is_kept else "broken",
        "numbers": sorted(numbers),
        "predicted": list(predicted),
        "measured": [measured],
    }
    _write(root, row)


def _write(root: Path, row: Mapping[str, object]) -> None:
    with (state.project(root) / FILE).open("a", encoding="utf-8") as file:
        file.write(json.dumps(row) + "\n")


def calibration(root: Path) -> Calibration | None:
    """The calibration of this project on this machine; None before a prediction was held to a measurement."""
    known = state.known_project(root)
    if known is None:
        return None
    try:
        lines = (known / FILE).read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError):
        return None
    pairs = [pair for line in _last_of_promises(lines) if (pair := _pair(line)) is not None]
    if not pairs:
        return None
    inside = sum(low <= measured <= high for (_, low, high), measured in pairs)
    errors = [abs(predicted / measured - 1) for (predicted, _, _), measured in pairs]
    return Calibration(len(pairs), inside, statistics.median(errors))


def _last_of_promises(lines: Sequence[str]) -> list[str]:
    """The lines without those of a job that was asked after again: the last one is of its longest mean."""
    found: dict[object, str] = {}
    for index, line in enumerate(lines):
        try:
            row = json.loads(line)
            key: object = (row["run"], *row["numbers"])
        except (ValueError, KeyError, TypeError):
            key = index  # of a verification: each counts
        found.pop(key, None)
        found[key] = line
    return list(found.values())


def _pair(line: str) -> tuple[tuple[float, float, float], float] | None:
    """The prediction and the measured speedup; None for a line that was not written to its end, or by a newer one."""
    try:
        row = json.loads(line)
        speedup, low, high = map(float, row["predicted"])
        measured = float(row["measured"][0])
    except (ValueError, KeyError, TypeError, IndexError):
        return None
    return ((speedup, low, high), measured) if row.get("schema") == SCHEMA and measured > 0 else None
