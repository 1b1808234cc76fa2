"""What the probe itself costs inside the window: calls x their cost as measured in this process, after the window."""

from __future__ import annotations

import os
from _thread import get_ident

from . import clock
from .hooks.calls import timed_read
from .hooks.collectives import KIND as COLLECTIVE
from .hooks.collectives import timed_collective
from .hooks.model import timed_call
from .recorder import Recorder, timed

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from .session import ProbeSession
    from .shapes import Function

CALLS = 500
COUNTED = ("empty_cache", "gc", "sync")
"""Kinds whose call site is looked for."""

_SCRIPT = """
def call(function, number, tensor):
    for _ in range(number):
        function(tensor)
"""


class Overhead:
    """`start` and `stop` at the window's edges; `row` gives the Recording's overhead."""

    def __init__(self, session: ProbeSession) -> None:
        self._session = session
        self._row: dict[str, int] | None = None

    def start(self) -> None:
        """The window begins."""
        self._look_ns = self._session.recorder.look_ns
        self._sampler_ns = self._session.sampler.spent_ns
        self._events = len(self._session.recorder.events)

    def stop(self) -> None:
        """The window is over: count and weigh."""
        recorder = self._session.recorder
        events = recorder.events[getattr(self, "_events", 0) :]
        forwards = [event[3] for event in events if event[0] == "forward"]
        inner = {ref: self._session.num_submodules(ref) for ref in set(forwards)}
        counted = sum(1 for event in events if event[0] in COUNTED)
        exchanges = sum(1 for event in events if event[0] == COLLECTIVE)
        # A thread that watches the one that trains must not touch a device that may hang.
        marks = recorder.device_clock if get_ident() == recorder.thread else None
        self._row = {
            "events": len(events),
            "event_ns": int((len(events) - counted - exchanges) * _event_ns() + counted * _read_ns())
            + int(exchanges and exchanges * _collective_ns())
            + int(sum(inner[ref] for ref in forwards) * _submodule_ns())
            + recorder.look_ns
            - getattr(self, "_look_ns", 0)
            + (marks.cost_ns() if marks is not None else 0),
            "sampler_ns": self._session.sampler.spent_ns - getattr(self, "_sampler_ns", 0),
        }

    def row(self) -> dict[str, int]:
        """events in the window, event_ns and sampler_ns spent on them (CPU), setup_ns once."""
        known = self._row or {"events": 0, "event_ns": 0, "sampler_ns": 0}
        return {**known, "setup_ns": self._session.setup_ns}


def _event_ns() -> float:
    """Cost of one recorded call."""
    return _per_call(timed(Recorder(_ignore), "logging", _nothing))


def _read_ns() -> float:
    """Cost of one recorded read of a device tensor: it looks for its call site, here past more frames than there."""
    return _per_call(timed_read(Recorder(_ignore), _nothing), _OnDevice)


def _collective_ns() -> float:
    """CPU time of one recorded collective, called from a line of the user's: from a library's it is more."""
    from torch import zeros

    names: dict[str, Any] = {}
    exec(compile(_SCRIPT, os.path.join(os.sep, "script.py"), "exec"), names)
    hooked = timed_collective(Recorder(_ignore), _nothing, "all_reduce")
    start = clock.thread_cpu()
    names["call"](hooked, CALLS, zeros(1))
    return (clock.thread_cpu() - start) / CALLS


def _submodule_ns() -> float:
    """Cost that the patched Module.__call__ adds to a submodule's call.

    A module is called: torch's profiler looks into what this code is called with (with_stack=True).
    """
    from torch.nn import Identity

    recorder, module = Recorder(_ignore), Identity()
    recorder.in_forward = True
    return max(0.0, _per_call(timed_call(recorder, _nothing, lambda module, flag: -1), module) - _per_call(_nothing))


class _OnDevice:
    """As much of a device tensor as a read's hook asks for."""

    is_cuda = True


def _per_call(function: Function, argument: Any = None) -> float:
    start = clock.now()
    for _ in range(CALLS):
        function(argument)
    return (clock.now() - start) / CALLS


def _nothing(*args: object) -> None:
    return None


def _ignore(*args: object) -> None:
    return None
