"""What pictures of a window show beyond its means: single steps in time, the lengths of samples, numbers of workers."""

from __future__ import annotations

from msgspec import Struct


class LaneSpan(Struct, frozen=True):
    """A stretch of a lane in ms since the first step shown. `kind` is a phase, "worker", "busy" or "line"; `place` the
    user's function or line, "" where none is known."""

    start_ms: float
    end_ms: float
    kind: str
    place: str = ""


class Lane(Struct, frozen=True):
    """What one thing did: the host, a worker of the loader, the device, lines of the user's."""

    name: str
    spans: tuple[LaneSpan, ...]


class Timeline(Struct, frozen=True):
    """Steps that follow each other, in `length_ms`; where each of them ends."""

    length_ms: float
    step_ends_ms: tuple[float, ...]
    lanes: tuple[Lane, ...]
    is_profiled: bool
    """A profiler watched these steps, and slowed the host."""


class LengthBin(Struct, frozen=True):
    """Samples of `low` to `high` tokens, both included."""

    low: int
    high: int
    samples: int


class Lengths(Struct, frozen=True):
    """The lengths of samples without padding, and what their batches were padded to: the longest, and the part of all
    tokens that is padding, in 0..1."""

    bins: tuple[LengthBin, ...]
    width: int | None
    pad_share: float | None


class WorkerCount(Struct, frozen=True):
    """A number of workers: the step that is predicted with it, and what the loader alone took for the batches of a
    step; None where it is not known."""

    workers: int
    predicted_ms: float | None
    alone_ms: float | None
    is_now: bool = False


class WindowDetail(Struct, frozen=True):
    """All of it; what the data does not have is None, or empty."""

    timeline: Timeline | None = None
    lengths: Lengths | None = None
    workers: tuple[WorkerCount, ...] = ()
