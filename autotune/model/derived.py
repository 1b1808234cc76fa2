"""What arithmetic makes of the Recordings of one run."""

from __future__ import annotations

from msgspec import Struct, field

from autotune.model.evidence import Fact, Setting
from autotune.model.report import Collective, DeviceProfile, Rank, StartUpPart, Step
from autotune.model.window_detail import WindowDetail


class Derived(Struct, frozen=True):
    """Facts, observed settings, the step of the window (None when there was no step to measure) and the start-up."""

    facts: tuple[Fact, ...]
    settings: tuple[Setting, ...]
    step: Step | None
    ranks: tuple[Rank, ...] = ()
    hosts: tuple[str, ...] = ()
    missing_ranks: tuple[int, ...] = ()
    collectives: tuple[Collective, ...] = ()
    startup: tuple[StartUpPart, ...] = ()
    devices: tuple[DeviceProfile, ...] = ()
    detail: WindowDetail = field(default_factory=WindowDetail)
    """Of the first rank; its workers are those that a loader was tried with, without a prediction."""
