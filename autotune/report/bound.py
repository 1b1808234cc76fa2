"""What bounds the step: the phase that takes the largest part of it."""

from __future__ import annotations

from autotune.model.report import Report, Step

TRAIN = "loader#train"

COMPUTE = ("forward", "recompute", "backward", "optimizer")
"""The phases that "compute" stands for."""

BOUNDS = ("data_wait", "compute", "checkpoint", "evaluation", "h2d", "logging", "rank_wait", "communication", "other")


def bound(report: Report, step: Step) -> tuple[str, float]:
    """What takes the largest part of a step, one of BOUNDS, and its share.

    What preparing batches takes from training on the same CPUs counts as input, and not as the phases that it slows.
    """
    known = {phase: ms or 0.0 for phase, ms in step.breakdown_ms.items()}
    parts = {name: known.get(name, 0.0) / step.mean_ms for name in BOUNDS}
    parts["compute"] = sum(known.get(phase, 0.0) for phase in COMPUTE) / step.mean_ms
    name = max(BOUNDS, key=lambda each: parts[each])
    cost, wait = report.evidence.lookup(TRAIN, "loader.input_share"), parts["data_wait"]
    if name == "compute" and isinstance(cost, float) and cost > wait and cost > parts[name] - (cost - wait):
        return "data_wait", cost
    return name, parts[name]
