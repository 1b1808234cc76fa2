"""What arithmetic makes of the Recordings of one run."""

from __future__ import annotations

from msgspec import Struct

from autotune.model.evidence import Fact, Setting
from autotune.model.report import Collective, DeviceProfile, Rank, StartUpPart, Step


class Derived(Struct, frozen=True):
    """Facts, observed settings, the step of the window (None when there was no step to measure) and the start-up."""

    facts: tuple[Fact, ...]
    settings: tuple[Setting, ...]
    step: Step | None
    ranks: tuple[Rank, ...] = ()
    collectives: tuple[Collective, ...] = ()
    startup: tuple[StartUpPart, ...] = ()
    devices: tuple[DeviceProfile, ...] = ()
