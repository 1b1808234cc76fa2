"""When the device got to the phases' edges: CUDA events, recorded without waiting and read once after the window."""

from __future__ import annotations

import sys
from _thread import get_ident
from bisect import bisect_left

from . import clock

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Any

    from .recorder import Recorder

MOST_MARKS = 16384
"""With more than that nothing is known: half a window would be taken for the whole."""

COST_MARKS = 100


class DeviceClock:
    """The marks of one window: a CUDA event in the device's queue for each instant of the host.

    What CUDA refuses ends the marking, never the script.
    """

    def __init__(self) -> None:
        self._cuda = sys.modules["torch"].cuda
        self._marks: list[tuple[int, Any]] = []
        self._stream: Any = None
        self._is_broken = False

    def mark(self, moment: int) -> None:
        """The host is at `moment`: let the device note when it has done all that was queued so far."""
        if self._is_broken:
            return
        try:
            self._record(moment)
        except Exception:  # no context in this thread, a stream in an odd state: the times stay unknown
            self._is_broken = True

    def _record(self, moment: int) -> None:
        # An event recorded during a capture becomes a part of the user's graph.
        if self._cuda.is_current_stream_capturing():
            return
        # Two streams are two queues: times between their events say nothing, and of two devices there are none.
        stream = self._cuda.current_stream()
        if self._stream is None:
            self._stream = stream
        if stream != self._stream:
            return
        if len(self._marks) == MOST_MARKS:
            self._is_broken = True
            return
        event = self._cuda.Event(enable_timing=True)
        event.record()
        self._marks.append((moment, event))

    def cost_ns(self) -> int:
        """CPU time that the marks took, after the window: as many of them as were made, by the cost of some in an empty
        queue. In a full queue a mark waits, as the next launch would: on an H100 about 300 us where the host ran ahead,
        at most 64 where it did not. 0 where that cannot be asked.
        """
        others = DeviceClock()
        begin = clock.thread_cpu()
        for moment in range(COST_MARKS):
            others.mark(moment)
        each = (clock.thread_cpu() - begin) / COST_MARKS
        return 0 if others._is_broken else int(len(self._marks) * each)

    def read(self) -> list[tuple[int, int]]:
        """(host ns, device ns since the first mark) of each mark, after waiting for the device; [] when unknown."""
        if self._is_broken or len(self._marks) < 2:
            return []
        try:
            self._cuda.synchronize()
            rows, passed = [(self._marks[0][0], 0)], 0
            # From mark to mark: one number of 32 bits for a whole window would be too coarse.
            for (_, before), (moment, event) in zip(self._marks, self._marks[1:]):
                passed += max(0, int(before.elapsed_time(event) * 1e6))
                rows.append((moment, passed))
        except Exception:  # an error of the script's own, which its next call will raise
            return []
        return rows


def drained(moment: int, *, on_cuda: bool) -> int:
    """`moment`; on CUDA now, once the device has done all that was queued. Only the thread that trains may wait."""
    if not on_cuda:
        return moment
    try:
        sys.modules["torch"].cuda.synchronize()
    except Exception:  # an error of the script's own, which its next call will raise
        return moment
    return clock.now()


def moved(rows: Sequence[tuple[int, int]]) -> Callable[[int], int]:
    """Maps instants of the host to the device's clock of `rows` (of `read`), linear between two of them; without rows
    every instant stays as it is."""
    if not rows:
        return lambda moment: moment
    hosts = [host for host, _ in rows]

    def at(moment: int) -> int:
        after = min(max(1, bisect_left(hosts, moment)), len(rows) - 1)
        (host, device), (next_host, next_device) = rows[after - 1], rows[after]
        if next_host == host:
            return next_device
        share = min(1.0, max(0.0, (moment - host) / (next_host - host)))
        return round(device + (next_device - device) * share)

    return at


def start(recorder: Recorder, moment: int) -> None:
    """The window begins at `moment`."""
    marks = recorder.device_clock = DeviceClock()
    marks.mark(moment)


def stop(recorder: Recorder) -> list[tuple[int, int]]:
    """The window is over: the rows of its marks, [] on a CPU run.

    A thread that watches the one that trains must not wait for a device that may hang: it learns nothing.
    """
    marks, recorder.device_clock = recorder.device_clock, None
    if marks is None or get_ident() != recorder.thread:
        return []
    marks.mark(clock.now())
    return marks.read()
