"""What a search tried and found: the space, its trials, and the best of them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from enum import StrEnum

from msgspec import Struct

from autotune.model.evidence import Value
from autotune.model.finding import Gain
from autotune.model.patch import PatchChange
from autotune.model.verified import Verified

SCHEDULING = frozenset({"workers", "threads"})
"""Axes of how batches are prepared and computed: what is learned from a batch stays as it is."""


class Axis(Struct, frozen=True):
    """Settings that are searched together: one of `points` is chosen for all of them.

    `points[current]` is what the user has. What a point leaves out stays as it is by default (the prefetch factor of a
    loader without workers). The points of an ordered axis stand from the smallest to the largest. `subject` is whose
    settings they are, but for those that belong to the run.
    """

    name: str
    subject: str
    points: tuple[Mapping[str, Value], ...]
    current: int
    is_ordered: bool = True


class SkippedSetting(Struct, frozen=True):
    """A setting that is not searched, and why: it cannot be set in this script, or nothing says that it could help."""

    setting: str
    why: str


class Space(Struct, frozen=True):
    """Every combination of one point of each axis is a candidate. `left_out` is what is not in it.

    A trial may use `memory_limit_bytes` (None: unknown), of the device where it trains on one (`is_on_device`).
    """

    axes: tuple[Axis, ...]
    left_out: tuple[SkippedSetting, ...] = ()
    memory_limit_bytes: int | None = None
    is_on_device: bool = False

    @property
    def current(self) -> Candidate:
        """The user's own configuration."""
        return tuple(axis.current for axis in self.axes)

    def settings(self, candidate: Candidate) -> dict[str, Value]:
        """All settings of a candidate."""
        chosen = [axis.points[at] for axis, at in zip(self.axes, candidate, strict=True)]
        return {name: value for point in chosen for name, value in point.items()}

    def changes(self, candidate: Candidate) -> dict[str, Value]:
        """The settings of a candidate that the user has otherwise."""
        now = self.settings(self.current)
        return {name: value for name, value in self.settings(candidate).items() if now.get(name) != value}

    def touches_learning(self, settings: Iterable[str]) -> bool:
        """Whether a change of one of these may change what is learned, and not only how fast."""
        learned = [axis for axis in self.axes if axis.name not in SCHEDULING]
        return any(name in point for name in settings for axis in learned for point in axis.points)

    def is_searched(self, subject: str, setting: str) -> bool:
        """Whether candidates differ in this setting, of this loader where it is one of a loader."""
        axes = (axis for axis in self.axes if not subject.startswith("loader#") or axis.subject == subject)
        return any(setting in point for axis in axes for point in axis.points)


Key = tuple[str, str]
"""The subject and the name of a setting."""

Candidate = tuple[int, ...]
"""One point of each axis, by its index."""


class Outcome(StrEnum):
    """How a trial ended."""

    COMPLETED = "completed"
    OUT_OF_MEMORY = "out_of_memory"
    FAILED = "failed"
    TIMED_OUT = "timed_out"
    PRUNED = "pruned"


class OutOfMemoryNote(StrEnum):
    """Whose memory a trial ran out of. A run on the CPU has only the host's."""

    HOST = "host"
    DEVICE = "device"


class SearchTrial(Struct, frozen=True):
    """One candidate that was tried in a fresh process; trial 0 is the user's own configuration.

    `samples_per_s` is the objective: useful samples a second over the window (1000 / step_ms where samples are not
    known, and then in every trial); None unless it completed, or was pruned and had a pace by then. `memory_bytes` is
    the peak, of the device where it trains on one. `forecast` is the speedup over trial 0 that was expected of it, None
    without a model. `error` is the script's own last line, or what was observed instead of what was asked. `ran_out` is
    None but of a trial that ran out of memory.
    """

    number: int
    candidate: Candidate
    outcome: Outcome
    wall_s: float
    samples_per_s: float | None = None
    step_ms: float | None = None
    memory_bytes: int | None = None
    forecast: float | None = None
    error: str = ""
    ran_out: OutOfMemoryNote | None = None


class UntriedFinding(Struct, frozen=True):
    """What the diagnosis found and the search did not try: its rules, its first message, and the gain that may be
    claimed, of the step as it was before any change."""

    rules: tuple[str, ...]
    message: str
    gain: Gain


class Tuned(Struct, frozen=True):
    """One search. `best` are the settings that won, the user's own (empty changes) when nothing did.

    `verified` is the paired re-measurement of the best against the user's own; None when nothing was worth one.
    `stopped` says in words why the search ended, `spent_s` what it took in all, and `patch` is the file that `apply`
    takes ("" without one). `dropped` are changes of the fastest that were taken back; `by_hand` those that no edit
    makes and that were not proven, each with what it brings. `other_losses` are those of dropped that were faster, and
    were taken back because the losses were not what they have to be. `beyond` is what the diagnosis in the run folder
    `diagnosed` recommends of settings that were not searched. `side_effects` says what the runs changed in the user's
    files, and which layer held their writes where it was not the kernel.
    """

    space: Space
    trials: tuple[SearchTrial, ...]
    best: Mapping[str, Value]
    verified: Verified | None
    stopped: str
    spent_s: float
    probes_s: float
    patch: str = ""
    dropped: tuple[SkippedSetting, ...] = ()
    by_hand: tuple[PatchChange, ...] = ()
    notes: tuple[str, ...] = ()
    other_losses: tuple[str, ...] = ()
    beyond: tuple[UntriedFinding, ...] = ()
    diagnosed: str = ""
    side_effects: tuple[str, ...] = ()
    day: str = ""
    """When it was searched, "2026-11-26" (UTC)."""

    command: tuple[str, ...] = ()
    """What was searched, without what may be secret."""

    environment: str = ""
    """The machine and the software in one line; "" where unknown."""

    price_per_hour: float | None = None
    """USD of this machine, from --price."""
