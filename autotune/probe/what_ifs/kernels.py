"""A few profiled steps after the window: which kernels and copies ran on the CUDA device, and when it was idle."""

from __future__ import annotations

import sys
import time

from .. import clock, profiling

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from typing import Any

    from ..shapes import Row

STEPS, MOST_STEPS = 3, 50
LEAST_S = 0.1
"""Short steps are profiled until so much time has passed: a few milliseconds of a profile are its own start."""

MOST_CHARACTERS = 200
MOST_LAUNCHES = 100_000
"""More of them are not kept: the Recording is written after each phase, and would take tens of megabytes."""

MOST_HOST = 50_000

WAITS = ("StreamSynchronize", "DeviceSynchronize", "EventSynchronize", "CtxSynchronize")
"""cudaStreamSynchronize, hipDeviceSynchronize ...: calls that return when the device has done its work."""


class KernelProfile:
    """torch.profiler over whole optimizer steps, started here; `origin` is the Recording's.

    The first step warms the profiler up and is left out.
    The device is waited for at both ends, so that the profiled steps and nothing else lie between them. Whatever
    fails leaves the script alone and `table` None.
    """

    def __init__(self, steps: int, origin: int, *, is_alone: bool = True) -> None:
        self._steps = steps
        self._origin = origin
        self._done = -1
        self._begin: int | None = None
        self._profiler = None
        try:
            self._profiler = profiling.start(cuda=True, shapes=False)
        except Exception:  # no CUPTI in this container, a profiler of the script's own
            # Other ranks make all steps, and would wait for one that does not.
            self._steps = 0 if is_alone else steps

    def on_step(self) -> bool:
        """An optimizer step has ended; whether it was the last one."""
        self._done += 1
        if self._done == 0:
            self._begin = _wait()
        return self._done >= self._steps

    def table(self) -> Row | None:
        """The Recording's `kernels`, times from the origin; None when no whole step was profiled."""
        profiler, self._profiler = self._profiler, None
        if profiler is None:
            return None
        host_end, end = time.time_ns(), _wait()
        try:
            profiler.stop()
            if self._done < 1 or self._begin is None or end is None:
                return None
            events = profiler.profiler.kineto_results.events()
            origin = time.time_ns() - clock.now() + self._origin
            table = tabulate(events, (self._begin, end), origin, host_end)
            # A step without any kernel is a profiler without CUPTI, which says so on stderr alone.
            is_whole = any(row["kind"] == "kernel" for row in table["rows"]) and len(table["launches"]) <= MOST_LAUNCHES
            return {"steps": self._done, **table} if is_whole else None
        except Exception:  # another torch's profiler has other names: the kernels stay unknown
            return None


def _wait() -> int | None:
    """The profiler's clock once the device has done all that was queued; None when it failed."""
    try:
        sys.modules["torch"].cuda.synchronize()
    except Exception:  # an error of the script's own, which its next call will raise
        return None
    return time.time_ns()


def tabulate(events: Iterable[Any], span: tuple[int, int], origin: int, host_end: int | None = None) -> Row:
    """Kineto `events` that start within `span`, as start_ns, end_ns, rows, launches, host_rows and host; times less
    `origin`. The host's own end at `host_end`, where the probe begins to wait for the device.
    """
    within = [event for event in events if span[0] <= event.start_ns() < span[1]]
    found = sorted(filter(_is_device, within), key=lambda event: event.start_ns())
    operators = _operators(events, {event.linked_correlation_id() for event in found})
    rows: dict[tuple[str, str, str], int] = {}
    launches = []
    for event in found:
        name, start = event.name(), event.start_ns()
        key = (name[:MOST_CHARACTERS], operators.get(event.linked_correlation_id(), ""), _kind(name))
        length = min(event.duration_ns(), span[1] - start)
        launches.append((rows.setdefault(key, len(rows)), event.device_resource_id(), start - origin, length))
    own = [event for event in within if not _is_device(event) and event.start_ns() < (host_end or span[1])]
    host_rows, host = _host(own, origin)
    return {
        "start_ns": span[0] - origin,
        "end_ns": span[1] - origin,
        "rows": [{"name": name, "operator": operator, "kind": kind} for name, operator, kind in rows],
        "launches": launches,
        "host_rows": host_rows,
        "host": host,
    }


def _is_device(event: Any) -> bool:
    """Whether an event ran on the device. The ranges of record_function also appear there: they are no kernels."""
    return event.device_type().name == "CUDA" and not event.is_user_annotation()


def _kind(name: str) -> str:
    return "copy" if name.startswith("Memcpy") else "fill" if name.startswith("Memset") else "kernel"


def _operators(events: Iterable[Any], wanted: set[int]) -> dict[int, str]:
    """Names of torch's own operators by correlation id; a record_function of the script's has a name of its own."""
    found = {}
    for event in events:
        if event.correlation_id() in wanted and not _is_device(event) and event.name().startswith("aten::"):
            found[event.correlation_id()] = event.name()
    return found


def _host(events: Sequence[Any], origin: int) -> tuple[list[Row], list[tuple[int, int, int]]]:
    """The outermost operators of each thread, and the calls that wait with the innermost operator around them.

    A thread that starts no operator, as of a library that loads data, waits for itself.
    """
    training = {event.device_resource_id() for event in events if "::" in event.name()}
    rows: dict[tuple[str, str, str], int] = {}
    found = []
    around: list[Any] = []
    for event in sorted(events, key=lambda one: (one.device_resource_id(), one.start_ns(), -one.duration_ns())):
        start, name = event.start_ns(), event.name()
        if around and around[0].device_resource_id() != event.device_resource_id():
            around.clear()
        while around and around[-1].start_ns() + around[-1].duration_ns() <= start:
            around.pop()
        if name.endswith(WAITS) and event.device_resource_id() in training:
            key = (name, around[-1].name() if around else "", "sync")
        elif "::" in name and not event.is_user_annotation():
            around.append(event)
            if len(around) > 1:
                continue
            key = (name[:MOST_CHARACTERS], "", "operator")
        else:
            continue
        found.append((rows.setdefault(key, len(rows)), start - origin, event.duration_ns()))
    longest = sorted(sorted(found, key=lambda one: -one[2])[:MOST_HOST], key=lambda one: one[1])
    return [{"name": name, "operator": operator, "kind": kind} for name, operator, kind in rows], longest
