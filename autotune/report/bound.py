"""What bounds the step: the phase that takes the largest part of it."""

from __future__ import annotations

from autotune.model.report import LAUNCHING, DeviceProfile, Report, Step

TRAIN = "loader#train"

COMPUTE = ("forward", "recompute", "backward", "optimizer")
"""The phases that "compute" stands for."""

BOUNDS = ("data_wait", "compute", "checkpoint", "evaluation", "h2d", "logging", "rank_wait", "communication", "other")


DEVICE_BOUNDS = (
    "compute",
    "communication",
    "data_wait",
    "launch",
    "host",
    "sync",
    "copy",
    "device",
    "save",
    "evaluation",
)
"""Of a trace, by the device: kernels that compute, exposed communication, and why it is idle. "launch": the host
prepares the next launch; "host": it does something else."""


def device_bound(device: DeviceProfile) -> tuple[str, float]:
    """What takes the largest part of the device's step, one of DEVICE_BOUNDS, and its share."""
    parts = dict.fromkeys(DEVICE_BOUNDS, 0.0)
    parts["compute"] = device.busy_share - device.exposed_share
    parts["communication"] = device.exposed_share
    for part in device.idle:
        parts["launch" if part.kind in LAUNCHING else part.kind] += part.share
    name = max(DEVICE_BOUNDS, key=lambda each: parts[each])
    return name, parts[name]


def bound(report: Report, step: Step) -> tuple[str, float]:
    """What takes the largest part of a step, one of BOUNDS, and its share; of traces one of DEVICE_BOUNDS.

    What preparing batches takes from training on the same CPUs counts as input, and not as the phases that it slows.
    """
    if report.run.traces and report.device is not None:
        return device_bound(report.device)
    known = {phase: ms or 0.0 for phase, ms in step.breakdown_ms.items()}
    parts = {name: known.get(name, 0.0) / step.mean_ms for name in BOUNDS}
    parts["compute"] = sum(known.get(phase, 0.0) for phase in COMPUTE) / step.mean_ms
    name = max(BOUNDS, key=lambda each: parts[each])
    cost, wait = report.evidence.lookup(TRAIN, "loader.input_share"), parts["data_wait"]
    if name == "compute" and isinstance(cost, float) and cost > wait and cost > parts[name] - (cost - wait):
        return "data_wait", cost
    return name, parts[name]
