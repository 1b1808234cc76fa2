"""What lies ahead of a run: its memory, whether a change pays, restart or finish, other devices. Unknown is None."""

from __future__ import annotations

from enum import StrEnum
from typing import Literal

from msgspec import Struct

from autotune.model.finding import Basis

Known = Literal["measured", "modelled", "assumed"]
"""Seen in this run; computed from what was seen; resting on a number that nobody measured (a bandwidth, a price)."""


class MemoryPart(Struct, frozen=True):
    """One part of the memory. `num_bytes` and `basis` are None when it is unknown; `how` says why, or whence."""

    name: str
    num_bytes: int | None
    basis: Known | None
    how: str


class MemoryBudget(Struct, frozen=True):
    """The parts of the memory at the peak of the window, with the headroom under `limit_bytes` as the last one.

    `on_device` says whether it is a GPU's memory or that of one process on the host. `held_bytes` is the most that was
    in use between two steps: weights of all models, optimizer state, and gradients where they stay. None is unknown.
    """

    parts: tuple[MemoryPart, ...]
    peak_bytes: int
    limit_bytes: int | None
    on_device: bool
    held_bytes: int | None = None

    def of(self, name: str) -> int | None:
        """Bytes of the part `name`; None when it is unknown or not there."""
        return next((part.num_bytes for part in self.parts if part.name == name), None)


class ProgressLine(Struct, frozen=True):
    """A progress line, read: `step` of `total`, in the units of its bar. Times in seconds, None where it has none.

    `epoch` stands before a bar that may count the batches of one epoch only; `epochs_done` is all that some logs tell.
    """

    step: int | None = None
    total: int | None = None
    step_s: float | None = None
    epoch: int | None = None
    epochs_done: float | None = None
    adds_up: bool = True


class Position(Struct, frozen=True):
    """Where a running job is: optimizer steps done, of how many, and seconds a step; `notes` say what was assumed."""

    step: int
    total: int
    step_s: float
    notes: tuple[str, ...] = ()

    @property
    def left(self) -> int:
        return self.total - self.step


class RestartOption(StrEnum):
    """How a running job can go on."""

    FINISH = "finish"
    RESTART_NOW = "restart_now"
    RESTART_AFTER_SAVE = "restart_after_save"


class RestartForecast(Struct, frozen=True):
    """One way to the end: seconds from now on, at the gain and at both ends of its interval (`low_s` is the best)."""

    way: RestartOption
    seconds: float
    low_s: float
    high_s: float
    repeated_steps: int = 0
    wait_steps: int = 0


class Restart(Struct, frozen=True):
    """Restart or finish. `choice` is None when it cannot be told: the gain's interval holds more than one answer.

    A restart is chosen only when it saves `least_s` or more. `numbers` are the recommendations that it would be for,
    `basis` what their gain together rests on (None without one). `position` is None where the line could not be placed;
    `notes` say why.
    """

    position: Position | None
    courses: tuple[RestartForecast, ...]
    choice: RestartOption | None
    least_s: float
    numbers: tuple[int, ...]
    notes: tuple[str, ...] = ()
    basis: Basis | None = None


PromiseResult = Literal["kept", "broken", "as_before", "unknown"]
"""As fast as expected; slower than that; as it was before any change; no rate in the line, or of another run."""


class Promise(Struct, frozen=True):
    """What the progress line of a running job says of the step that was expected after the changes `numbers`.

    Times in ms of an optimizer step; beyond `limit_ms` it is not as expected, and `now_ms` is that before the changes.
    `shown_ms` is None where the line does not tell it.
    """

    result: PromiseResult
    numbers: tuple[int, ...]
    shown_ms: float | None
    expected_ms: float
    limit_ms: float
    now_ms: float


class Payback(Struct, frozen=True):
    """What the changes `numbers`, which leave training as it is, win back; `basis` is what their gain rests on.

    `saved_s` of `planned_s` seconds with its interval, None when the length of the run is unknown; less than `least_s`
    is not worth it. `steps` must be left to pay for restarting a job that runs, right after a save; None when it would
    never pay or is unknown.
    """

    numbers: tuple[int, ...]
    basis: Basis
    planned_s: float | None
    saved_s: float | None
    low_s: float | None
    high_s: float | None
    startup_s: float | None
    steps: int | None
    low_steps: int | None
    high_steps: int | None
    least_s: float | None

    @property
    def is_worth_it(self) -> bool | None:
        """Whether it may save enough; None when the length of the run is unknown."""
        return None if self.high_s is None or self.least_s is None else self.high_s >= self.least_s


class ValueRange(Struct, frozen=True):
    """A value of the options table, from `low` to `high`, and what it rests on."""

    low: float
    high: float
    basis: Known


class DeviceSetup(Struct, frozen=True):
    """One row: memory of each device in bytes, exposed communication and step in ms, the price of all devices.

    `fits` says whether `limit_bytes` of each device hold it; None is not known. It is too close where the limit lies
    within `memory`.
    """

    name: str
    num_devices: int
    memory: ValueRange | None
    exposed: ValueRange | None
    step: ValueRange
    usd_per_hour: float | None
    effort: str
    risk: str
    fits: bool | None = None
    limit_bytes: int | None = None


class Comparison(Struct, frozen=True):
    """The options table, or `why_not` there is none. Times and costs are of `steps`; `assumptions` nobody measured."""

    setups: tuple[DeviceSetup, ...] = ()
    steps: int = 0
    assumptions: tuple[str, ...] = ()
    why_not: str = ""


class Outlook(Struct, frozen=True):
    """All of it; a part that is None was not asked for, or nothing is known of it."""

    memory: MemoryBudget | None = None
    payback: Payback | None = None
    promise: Promise | None = None
    restart: Restart | None = None
    comparison: Comparison | None = None
