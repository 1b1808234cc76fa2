"""What arithmetic makes of the Recordings of one run."""

from __future__ import annotations

from dataclasses import dataclass

from autotune.model.evidence import Fact, Setting
from autotune.model.report import Step


@dataclass(frozen=True, slots=True)
class Derived:
    """Facts, observed settings and the step of the window (None when there was no step to measure)."""

    facts: tuple[Fact, ...]
    settings: tuple[Setting, ...]
    step: Step | None
