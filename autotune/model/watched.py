"""What a watched process writes of itself, and what `autotune watch` makes of it. `watch.schema.json` is the file's."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Literal

from msgspec import Struct


class ChangedPhase(Struct, frozen=True):
    """A phase that is a good part of what changed."""

    phase: str
    first_ms: float
    """Per step, in the first window."""

    now_ms: float


class Drift(Struct, frozen=True):
    """What has changed since the first window, and since which step."""

    what: Literal["step_time", "memory"]
    since_step: int
    said_at_step: int
    """The step after which it was first said."""

    is_steady: bool
    """It rises, or falls, all along; else it jumped at about `since_step`."""

    is_alike: bool
    """All phases changed alike: the machine is slower or faster, not the script."""

    queued_ms: float | None
    """Milliseconds per step for which the training thread waits longer for a CPU, where without that wait a step has
    not moved by a tenth: others use the machine, and no phase is named."""

    first: float
    """Milliseconds per step, or bytes."""

    now: float
    phases: tuple[ChangedPhase, ...]
    """The largest part first."""

    place: str | None
    """The user's line that was seen most in the first of these phases."""

    text: str
    """The same as a sentence."""


class WatchedWindow(Struct, frozen=True):
    """Steps that were measured by the probe's hooks."""

    step: int
    """The last step before it."""

    steps: int
    reason: Literal["planned", "moved"]
    """`moved`: the time of a step had moved by a tenth."""

    step_ms: float
    """Mean without the slowest tenth, with the hooks in place: their sum is in it."""

    phases_ms: Mapping[str, float]
    """Of the same steps; they sum up to it."""

    places: Mapping[str, str]
    """The user's line that was seen most, by phase."""

    queued_ms: float | None
    """Per step: the training thread was ready and had no CPU; null where the system does not tell."""

    memory_bytes: int | None

    @property
    def wait_share(self) -> float | None:
        """The part of a step that it waits for data; None where no DataLoader was seen."""
        return self.phases_ms["data_wait"] / self.step_ms if "data_wait" in self.phases_ms else None


class WatchedProcess(Struct, frozen=True):
    """One process that trains under watch. Times are seconds since 1970."""

    schema: Literal[1]
    state: Literal["running", "ended", "raised"]
    """As it said itself: a process that is killed says nothing more."""

    error: str | None
    """The type of the exception that ended it."""

    pid: int
    process_start: float | None
    """null where the system does not tell it: then only a silence says that the process may be gone."""

    host: str
    script: str
    """Its name, without arguments."""

    began_at: float
    """When its first step ended."""

    rank: int
    world_size: int | None
    seen_at: float
    """When the file was written."""

    stepped_at: float | None
    """When the last step before that ended."""

    steps: int
    step_ms: float | None
    """A step now: of the last block of some steps, the mean without the slowest tenth."""

    first_step_ms: float | None
    """The same before the first window."""

    memory_bytes: int | None
    """What CUDA's allocator has given out, else resident memory."""

    first_memory_bytes: int | None
    is_measuring: bool
    """A window is being measured."""

    windows: tuple[WatchedWindow, ...]
    drift: tuple[Drift, ...]
    """What had drifted at the last window; empty where nothing had."""

    failure: str | None
    """Why the watch ended before the run did: a bug of autotune."""


class WatchedRow(Struct, frozen=True):
    """A process as it is now. `life`: running, stale (no sign for long, from one that cannot be asked: it is of another
    machine, or its start is unknown), ended, raised, or killed (it is gone and did not say so). `idle_s`: seconds since
    its last step as far as it is known, `seen_s`: since its last sign."""

    folder: Path
    process: WatchedProcess
    life: Literal["running", "stale", "ended", "raised", "killed"]
    seen_s: float
    idle_s: float | None


class WatchedRuns(Struct, frozen=True):
    """What `autotune watch DIR` found: the newest run last, ranks in order. `unreadable`: files, with the reason."""

    rows: tuple[WatchedRow, ...]
    unreadable: Mapping[str, str]
    left_out: int = 0
    """Runs that ended before those shown."""
