"""A script that trains twice, as a teacher and then its student: the window lies in one of the trainings."""

from __future__ import annotations

from collections import Counter
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
    start_ns, end_ns = recording.window.start_ns, recording.window.end_ns
    steps = sorted((one.start_ns, one.ref) for one in recording.events if one.kind == "optimizer" and one.ref >= 0)
    measured = Counter(ref for at, ref in steps if start_ns <= at < end_ns)
    known = {ref for at, ref in steps if at < end_ns}
    later = [(at, ref) for at, ref in steps if ref not in known]
    # Two optimizers that take turns are one training, also where the second begins late.
    if not measured or not later or any(at > later[0][0] for at, ref in steps if ref in measured):
        return ""
    most = measured.most_common(1)[0][0]
    now, then = _place(recording, most), _place(recording, later[0][1])
    if now == then or not now or not then:
        return ""  # made anew for each epoch, or nobody knows where
    before = len(recording.window.step_ends_ns) + sum(ref == most and at >= end_ns for at, ref in steps)
    return (
        f"another training follows the measured one: its optimizer is made at {then}, the measured one's at {now}; "
        f"--after {before} measures that"
    )


def _place(recording: Recording, optimizer: int) -> str:
    """File and line where it was made; "" where the Recording has no row for it."""
    site = next((row["site"] for row in recording.optimizers if row["id"] == optimizer), None)
    return f"{PurePath(site['file']).name}:{site['line']}" if site is not None else ""
