"""The device's clock: where the host's instants lie once the device has caught up with what was queued until then.

On CUDA the host runs ahead. It queues a forward in a millisecond and waits somewhere later, in whatever call reads a
value back, so its own times say little about where the step goes. An instant that is moved to the device's clock says
when the device got there: the time between the two ends of a phase is then the device's, its waits for the host
included, and a wait for data counts only as far as the device ran dry.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Sequence

Mark = tuple[int, int]


def between(marks: Sequence[Mark], start_ns: int, end_ns: int) -> Callable[[int], int]:
    """Maps host times to the device's clock, keeping their order and the window's two ends.

    Between two marks it is linear. Keeping both ends stretches the window by what the lag changed in it, at most a
    step. Without marks over the whole window every instant stays where it is.
    """
    if not marks or marks[0][0] > start_ns or marks[-1][0] < end_ns:
        return _same
    hosts = [host for host, _ in marks]
    first, last = _reached(marks, hosts, start_ns), _reached(marks, hosts, end_ns)
    if last <= first:
        return _same
    span = (end_ns - start_ns) / (last - first)

    def moved(at_ns: int) -> int:
        if not start_ns < at_ns < end_ns:
            return at_ns
        return start_ns + round((_reached(marks, hosts, at_ns) - first) * span)

    return moved


def _same(at_ns: int) -> int:
    return at_ns


def _reached(marks: Sequence[Mark], hosts: Sequence[int], at_ns: int) -> float:
    """Device time of an instant between the first and the last mark."""
    after = min(bisect_right(hosts, at_ns), len(marks) - 1)
    (host, device), (next_host, next_device) = marks[after - 1], marks[after]
    if next_host == host:
        return next_device
    return device + (next_device - device) * (at_ns - host) / (next_host - host)
