"""What a save costs beside the call that writes: state dicts, temporary files, and caches that it leaves cold."""

from __future__ import annotations

from collections.abc import Collection
from statistics import median

from autotune.derive.recording_view import RecordingView, S

LEAST = 3
"""Fewer saves, or steps without one, do not tell what a save adds from the noise of steps."""


def added_s(view: RecordingView, after_steps: Collection[int]) -> float | None:
    """Seconds that a save adds to the step that holds it and to the next, over the median of the other steps.

    `after_steps`: how many steps had ended when each save began. Where every other step holds one, the next step is
    what there is to compare with. None where the window has too few of either, or an evaluation.
    """
    if view.window is None or any(view.window.holds(span.start_ns) for span in view.evaluations):
        return None
    first = view.steps_before(view.window.start_ns)
    saving = {steps - first for steps in after_steps} & set(range(len(view.window.step_ms)))
    later = {place + 1 for place in saving} - saving
    for touched in (saving | later, saving):
        places = touched & set(range(len(view.window.step_ms)))
        others = [ms for place, ms in enumerate(view.window.step_ms) if place not in places]
        if len(saving) >= LEAST and len(others) >= LEAST:
            added_ms = sum(view.window.step_ms[place] for place in places) - len(places) * median(others)
            return added_ms * 1e6 / S / len(saving)
    return None
