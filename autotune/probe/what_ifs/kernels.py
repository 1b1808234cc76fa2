"""A few profiled steps after the window: which kernels and copies ran on the CUDA device, and when it was idle."""

from __future__ import annotations

import sys
import time

from .. import clock, profiling

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Any

    from ..shapes import Row

STEPS = 3
MOST_CHARACTERS = 200
MOST_GAPS = 2000


class KernelProfile:
    """torch.profiler over whole optimizer steps, started here; `origin` is the Recording's.

    The first step warms the profiler up and is left out.
    The device is waited for at both ends, so that the profiled steps and nothing else lie between them. Whatever
    fails leaves the script alone and `table` None.
    """

    def __init__(self, steps: int, origin: int) -> None:
        self._steps = steps
        self._origin = origin
        self._done = -1
        self._begin: int | None = None
        self._profiler = None
        try:
            self._profiler = profiling.start(cuda=True, shapes=False)
        except Exception:  # no CUPTI in this container, a profiler of the script's own
            self._steps = 0

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
        end = _wait()
        try:
            profiler.stop()
            if self._done < 1 or self._begin is None or end is None:
                return None
            events = profiler.profiler.kineto_results.events()
            table = tabulate(events, (self._begin, end), time.time_ns() - clock.now() + self._origin)
            # A step without any kernel is a profiler without CUPTI, which says so on stderr alone.
            return {"steps": self._done, **table} if any(row["kind"] == "kernel" for row in table["rows"]) else None
        except Exception:  # another torch's profiler has other names: the kernels stay unknown
            return None


def _wait() -> int | None:
    """The profiler's clock once the device has done all that was queued; None when it failed."""
    try:
        sys.modules["torch"].cuda.synchronize()
    except Exception:  # an error of the script's own, which its next call will raise
        return None
    return time.time_ns()


def tabulate(events: Iterable[Any], span: tuple[int, int], origin: int) -> Row:
    """Kineto `events` that start within `span`, as start_ns, end_ns, busy_ns, rows and idle; times less `origin`.

    A row is all launches of one kernel by one operator, or all copies of one kind.
    """
    found = [event for event in events if _is_device(event) and span[0] <= event.start_ns() < span[1]]
    operators = _operators(events, {event.linked_correlation_id() for event in found})
    rows: dict[tuple[str, str, str], list[int]] = {}
    kernels: list[tuple[int, int]] = []
    for event in found:
        name, start, length = event.name(), event.start_ns(), event.duration_ns()
        kind = _kind(name)
        if kind == "kernel":
            kernels.append((start, min(start + length, span[1])))
        row = rows.setdefault((name[:MOST_CHARACTERS], operators.get(event.linked_correlation_id(), ""), kind), [0, 0])
        row[0] += 1
        row[1] += length
    gaps = _gaps(kernels, span)
    longest = sorted(sorted(gaps, key=lambda gap: gap[0] - gap[1])[:MOST_GAPS])
    return {
        "start_ns": span[0] - origin,
        "end_ns": span[1] - origin,
        "busy_ns": span[1] - span[0] - sum(end - start for start, end in gaps),
        "rows": [
            {"name": name, "operator": operator, "kind": kind, "count": count, "total_ns": total}
            for (name, operator, kind), (count, total) in rows.items()
        ],
        "idle": [(start - origin, end - origin) for start, end in longest],
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


def _gaps(intervals: list[tuple[int, int]], span: tuple[int, int]) -> list[tuple[int, int]]:
    """(start, end) of what `intervals` leave uncovered of `span`."""
    gaps, covered = [], span[0]
    for start, end in sorted(intervals):
        if start > covered:
            gaps.append((covered, start))
        covered = max(covered, end)
    return gaps if covered >= span[1] else [*gaps, (covered, span[1])]
