"""What the probe itself cost inside the window: the hooks time themselves, and the sampler's thread its CPU.

What a submodule's call pays for the patched Module.__call__ is too short to be timed each time: it is measured in this
process after the window, with the cache emptied between two calls as a layer's own work does it.
"""

from __future__ import annotations

from _thread import get_ident

from . import clock
from .hooks.model import timed_call
from .recorder import Recorder

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from .session import ProbeSession
    from .shapes import Function

CALLS = 200
CACHE_BYTES = 1 << 18
"""More than a core's first cache holds."""


class Overhead:
    """`start` and `stop` at the window's edges; `row` gives the Recording's overhead."""

    def __init__(self, session: ProbeSession) -> None:
        self._session = session
        self._row: dict[str, int] | None = None

    def start(self) -> None:
        """The window begins."""
        self._own_ns = self._session.recorder.own_ns
        self._sampler_ns = self._session.sampler.spent_ns
        self._events = len(self._session.recorder.events)

    def stop(self) -> None:
        """The window is over: sum up."""
        recorder = self._session.recorder
        own_ns, sampler_ns = recorder.own_ns, self._session.sampler.spent_ns
        events = recorder.events[getattr(self, "_events", 0) :]
        forwards = [event[3] for event in events if event[0] == "forward"]
        inner = {ref: self._session.num_submodules(ref) for ref in set(forwards)}
        # A thread that watches the one that trains must not touch a device that may hang.
        marks = recorder.device_clock if get_ident() == recorder.thread else None
        self._row = {
            "events": len(events),
            "event_ns": own_ns
            - getattr(self, "_own_ns", 0)
            + int(sum(inner[ref] for ref in forwards) * _submodule_ns())
            + (marks.cost_ns() if marks is not None else 0),
            "sampler_ns": sampler_ns - getattr(self, "_sampler_ns", 0),
        }

    def row(self) -> dict[str, int]:
        """Number of events in the window, event_ns of the hooks, sampler_ns (CPU), setup_ns once."""
        known = self._row or {"events": 0, "event_ns": 0, "sampler_ns": 0}
        return {**known, "setup_ns": self._session.setup_ns}


def _submodule_ns() -> float:
    """Cost that the patched Module.__call__ adds to a submodule's call.

    A module is called: torch's profiler looks into what this code is called with (with_stack=True).
    """
    from torch.nn import Identity

    recorder, module = Recorder(_ignore), Identity()
    recorder.in_forward = True
    return max(0.0, _per_call(timed_call(recorder, _nothing, lambda module, flag: -1), module) - _per_call(_nothing))


def _per_call(function: Function, argument: Any = None) -> float:
    took = []
    for _ in range(CALLS):
        bytearray(CACHE_BYTES)
        start = clock.now()
        function(argument)
        took.append(clock.now() - start)
    return sorted(took)[CALLS // 2]


def _nothing(*args: object) -> None:
    return None


def _ignore(*args: object) -> None:
    return None
