"""A script that trains twice, as a teacher and then its student: the window lies in the first training."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import PurePath

from autotune.model.recording import Recording


def note(recordings: Sequence[Recording]) -> str:
    """What is said where another optimizer went on after the last step of those that the window measured; "" if none
    did."""
    return next((text for one in recordings if (text := _note_of(one))), "")


def _note_of(recording: Recording) -> str:
    if recording.window is None:
        return ""
    steps = sorted((one.start_ns, one.ref) for one in recording.events if one.kind == "optimizer" and one.ref >= 0)
    measured = {ref for start_ns, ref in steps if start_ns < recording.window.end_ns}
    before = [start_ns for start_ns, ref in steps if ref in measured]
    later = [(start_ns, ref) for start_ns, ref in steps if ref not in measured]
    # Optimizers that take turns, of which one begins late, are one training.
    if not measured or not later or later[0][0] < before[-1]:
        return ""
    first = max(measured, key=lambda ref: sum(each == ref for _, each in steps))
    count = sum(ref == first for _, ref in steps)
    return (
        f"two trainings: the window lies in the first, of {count} steps (its optimizer is made at "
        f"{_place(recording, first)}); the one after it ({_place(recording, later[0][1])}) was not measured: "
        f"--after {count} measures that"
    )


def _place(recording: Recording, optimizer: int) -> str:
    site = next(row["site"] for row in recording.optimizers if row["id"] == optimizer)
    return f"{PurePath(site['file']).name}:{site['line']}"
