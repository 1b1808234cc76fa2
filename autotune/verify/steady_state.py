"""The pace that lasts: batches that workers had ready when the window began are used up only once."""

from __future__ import annotations

from msgspec.structs import replace

from autotune.model.recording import Recording
from autotune.model.verified import RunResult


def steady_state_ms(start: RunResult, recording: Recording) -> RunResult:
    """`start` as if each of its steps had waited for its batches to be prepared.

    More batches may come in the window than are prepared in it, one for each worker at least. What came beyond that
    was ready before: training was faster than its workers, and will wait for them once there is none left.
    """
    window = recording.window
    if window is None or window.ended_by == "script_ended":
        return start  # at the end of the data workers have nothing left to prepare
    span = range(window.start_ns, window.end_ns + 1)
    came = sum(1 for event in recording.events if event.kind == "fetch" and event.flag and event.end_ns in span)
    prepared = [one for one in recording.fetches if one.start_ns + one.wall_ns in span]
    workers = len({one.pid for one in recording.fetches if not one.in_main})
    kept_up = len(prepared) + workers
    if not workers or came <= kept_up:
        return start
    return replace(start, step_ms=start.step_ms * came / kept_up)
