"""What the CUDA device did for the operations of the recorded steps, and in which phase the host was when it asked.

A kernel belongs to the operation that launched it, and with it to the line and the module that ran on the host then,
however much later it ran.
"""

from __future__ import annotations

from bisect import bisect_right

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from typing import Any

    from ..shapes import Event

LAUNCHES = ("cuda", "hip", "cuLaunch", "cuMem", "cuStream", "cuEvent", "cuCtx")
"""How the names of a runtime's or a driver's calls begin."""

PHASES = (
    "iter",
    "fetch",
    "h2d",
    "forward",
    "recompute",
    "backward",
    "optimizer",
    "closure",
    "collective",
    "checkpoint",
    "evaluation",
    "logging",
)
"""The kinds of events that have a phase; any other kind (sync, gc ...) is part of what encloses it."""

ELSEWHERE = "closure"
"""The phase of what runs between the others: the script's own code."""


class DeviceTime:
    """Nanoseconds of kernels, copies and fills by what launched them."""

    def __init__(self, events: Sequence[Any]) -> None:
        self._by_operation: dict[int, int] = {}
        self._by_call: dict[int, int] = {}
        calls = {event.correlation_id() for event in events if _is_call(event)}
        for event in events:
            if not _is_on_device(event) or event.is_user_annotation():
                continue
            # The call tells more than torch's link to an operation: Triton launches through none.
            number, link = event.correlation_id(), event.linked_correlation_id()
            owners, owner = (self._by_call, number) if number in calls else (self._by_operation, link)
            owners[owner] = owners.get(owner, 0) + event.duration_ns()

    def of(self, event: Any) -> int:
        """What this operation or call of the host launched by itself."""
        owners = self._by_call if _is_call(event) else self._by_operation
        return owners.get(event.correlation_id(), 0)


def _is_on_device(event: Any) -> bool:
    return bool(event.device_type().name == "CUDA")


def _is_call(event: Any) -> bool:
    return not _is_on_device(event) and event.name().startswith(LAUNCHES)


class Phases:
    """The innermost phase of the training thread at a time; all of an evaluation is evaluation.

    `events` are the recorder's, `offset` brings their times to those that are asked for.
    """

    def __init__(self, events: Iterable[Event], offset: int) -> None:
        self._times: list[int] = []
        self._kinds: list[str] = []
        under_way: list[tuple[int, str]] = []
        for kind, start, end, *_ in sorted(events, key=lambda event: (event[1], -event[2])):
            if start == end or kind not in PHASES:
                continue
            self._close(under_way, start)
            shown = "evaluation" if "evaluation" in (kind, *(each for _, each in under_way)) else kind
            under_way.append((end, shown))
            self._note(start, shown)
        self._close(under_way, None)
        self._times = [moment + offset for moment in self._times]

    def at(self, moment: int) -> str:
        index = bisect_right(self._times, moment) - 1
        return self._kinds[index] if index >= 0 else ELSEWHERE

    def _close(self, under_way: list[tuple[int, str]], until: int | None) -> None:
        """What has ended by `until`, all of it without one: its surroundings run on."""
        while under_way and (until is None or under_way[-1][0] <= until):
            end, _ = under_way.pop()
            self._note(end, under_way[-1][1] if under_way else ELSEWHERE)

    def _note(self, moment: int, kind: str) -> None:
        self._times.append(moment)
        self._kinds.append(kind)
