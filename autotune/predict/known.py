"""What every what-if needs: facts as numbers, and a Gain made of milliseconds."""

from __future__ import annotations

from collections.abc import Mapping

from autotune.model.evidence import Evidence
from autotune.model.finding import Basis, Gain

Arguments = Mapping[str, str]
TRAIN = "loader#train"
"""The subject whose batches are trained on."""


def number(evidence: Evidence, subject: str, name: str) -> float | None:
    """The fact or setting `name` as a float; None when it is unknown or no number."""
    value = evidence.lookup(subject, name)
    return float(value) if isinstance(value, int | float) and not isinstance(value, bool) else None


def gain(
    evidence: Evidence,
    subject: str,
    speedup: float,
    interval: tuple[float, float],
    basis: Basis,
    note: str = "",
) -> Gain:
    """A Gain with the seconds that it saves over the planned run, where the length of the run is known."""
    planned_s = number(evidence, subject, "run.planned_s")
    saved_s = None if planned_s is None else planned_s * (1 - 1 / speedup)
    return Gain(speedup, *interval, basis, saved_s, note)
