"""What the probe itself costs inside the window: calls x their cost as measured in this process, after the window."""

from __future__ import annotations

from . import clock, hooks_model
from .recorder import Recorder, timed

CALLS = 500


class Overhead:
    """`start` and `stop` at the window's edges; `row` gives the Recording's overhead."""

    def __init__(self, session) -> None:
        self._session = session
        self._row = None

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
        self._row = {
            "events": len(events),
            "event_ns": int(len(events) * _event_ns() + sum(inner[ref] for ref in forwards) * _submodule_ns())
            + recorder.look_ns
            - getattr(self, "_look_ns", 0)
            + (recorder.device_clock.spent_ns if recorder.device_clock is not None else 0),
            "sampler_ns": self._session.sampler.spent_ns - getattr(self, "_sampler_ns", 0),
        }

    def row(self) -> dict:
        """events in the window, event_ns and sampler_ns spent on them (CPU), setup_ns once."""
        known = self._row or {"events": 0, "event_ns": 0, "sampler_ns": 0}
        return {**known, "setup_ns": self._session.setup_ns}


def _event_ns() -> float:
    """Cost of one recorded call."""
    return _per_call(timed(Recorder(_ignore), "logging", _nothing))


def _submodule_ns() -> float:
    """Cost that the patched Module.__call__ adds to a submodule's call."""
    recorder = Recorder(_ignore)
    recorder.in_forward = True
    return max(0.0, _per_call(hooks_model.timed_call(recorder, _nothing, _ignore)) - _per_call(_nothing))


def _per_call(function) -> float:
    start = clock.now()
    for _ in range(CALLS):
        function(None)
    return (clock.now() - start) / CALLS


def _nothing(*args) -> None:
    return None


def _ignore(*args) -> None:
    return None
