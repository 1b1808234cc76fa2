"""What every what-if needs: facts as numbers, and a Gain made of milliseconds."""

from __future__ import annotations

import math
from collections.abc import Mapping

from autotune.model.evidence import RUN, Evidence
from autotune.model.finding import Basis, Gain

Arguments = Mapping[str, str]
TRAIN = "loader#train"
"""The subject whose batches are trained on."""

FIT_ERROR = 2.0
"""The fixed part of a line through 0.5, 1 and 2 times the units is known this much worse than the line's middle."""

MOST_DOUBT = 0.9
"""A speedup is known worse than that by nobody: its lower end stays above 0."""

ONCE_A_STEP = ("data_wait", "optimizer", "checkpoint", "evaluation", "logging")


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
    return Gain(speedup, *interval, basis, saved_s(evidence, speedup), note)


def saved_s(evidence: Evidence, speedup: float) -> float | None:
    """Seconds that a speedup of the measured step saves in all planned steps; None where their number is unknown.

    It is a share of the window's step, saves and evaluations in it as they fell, and so is not taken of run.planned_s.
    """
    steps, step_ms = number(evidence, RUN, "run.num_planned_steps"), number(evidence, RUN, "step.mean_ms")
    return steps * step_ms / 1e3 * (1 - 1 / speedup) if steps and step_ms is not None else None


def micro_batches_share(evidence: Evidence) -> float | None:
    """What a step spends on its micro-batches, of the step; None without a window.

    A share and no milliseconds: what-ifs run after the window, where the machine may be faster or slower.
    """
    if number(evidence, RUN, "step.mean_ms") is None:
        return None
    return max(0.0, 1 - sum(number(evidence, RUN, f"step.{phase}_share") or 0.0 for phase in ONCE_A_STEP))


def step_error(evidence: Evidence, of_model: float) -> float:
    """The noise of the measured step and a model's own error together, of the speedup; at most MOST_DOUBT."""
    return min(MOST_DOUBT, math.hypot(number(evidence, RUN, "step.noise_share") or 0.0, of_model))
