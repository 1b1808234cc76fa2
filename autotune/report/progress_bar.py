"""The step as the user's own progress bar shows it: without saves and evaluations, in the unit of the bar."""

from __future__ import annotations

from autotune.catalogue import frameworks
from autotune.model.evidence import RUN
from autotune.model.report import Report, Step
from autotune.report.units import rate, step_time

BETWEEN = {"checkpoint": "saves", "evaluation": "evaluation"}
"""Phases that come between the iterations of a bar, and how the reports call them."""

IN_BAR = " in your bar"


def iteration_ms(step: Step) -> float:
    """The mean step without saves and evaluation."""
    return step.mean_ms - sum(step.breakdown_ms.get(phase) or 0.0 for phase in BETWEEN)


def seen_between(step: Step) -> str:
    """What the window had of these: "saves and evaluation", "" for none."""
    return " and ".join(name for phase, name in BETWEEN.items() if step.breakdown_ms.get(phase))


def written(ms: float, report: Report) -> str:
    """ "3.33 s/it in your bar", "5.95 it/s", "168 ms per optimizer step".

    The bars of some frameworks count optimizer steps; what others count is the same without accumulation.
    """
    framework = str(report.evidence.lookup(RUN, "run.framework"))
    if ms > 0 and any(one.counts_steps for one in frameworks.chain(framework)):
        return f"{rate(ms)}{IN_BAR}"
    if ms > 0 and report.evidence.lookup(RUN, "step.num_micro_batches") == 1:
        return rate(ms)
    return f"{step_time(ms)} per optimizer step"
