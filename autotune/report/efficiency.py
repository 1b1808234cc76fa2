"""How fast the run is, in what it is for: samples and tokens per second, how busy the device is, MFU, and how fast it
would be if only compute were left."""

from __future__ import annotations

from collections.abc import Iterator

from autotune.model.evidence import RUN
from autotune.model.report import Report, Step
from autotune.report import progress_bar
from autotune.report.units import number, percent

LEAST_PADDING = 0.01
"""Of the tokens: less padding is not told apart."""

MOST_COMPUTE = 0.9
"""Of the step: above it, the time with compute alone is too close to the step's own to be told."""

MOST_OTHER = 0.1
"""Of the step on CPUs, what runs in no phase: more of it may be compute that no model's call contains."""

COMPUTE = ("forward", "recompute", "backward", "optimizer")
"""Phases in which a CPU computes."""


def parts(report: Report) -> Iterator[str]:
    """ "9.2 samples/s", "25,300 tokens/s (17,400 without padding)", "device busy 93 %", "MFU 41 %", "with compute alone
    2.58 s/it"; without what is unknown."""
    if report.step is None:
        return
    yield from _throughput(report.step, " per process" if report.run.num_processes > 1 else "")
    busy = busy_share(report)
    if busy is not None:
        yield f"device busy {percent(busy)}"
    mfu = report.evidence.lookup(RUN, "device.mfu_share")
    if isinstance(mfu, float):
        yield f"MFU {percent(mfu)}"
    alone = compute_ms(report)
    if alone is not None and 0 < alone <= MOST_COMPUTE * progress_bar.iteration_ms(report.step):
        yield f"with compute alone {progress_bar.written(alone, report).removesuffix(progress_bar.IN_BAR)}"


def compute_ms(report: Report) -> float | None:
    """Milliseconds of a step if only compute were left: of a device's, the time in which its kernels run, without
    communication that nothing hides; on CPUs forward, recompute, backward and optimizer. None where that is unknown, as
    on CPUs where much runs in no phase."""
    step = report.step
    if step is None:
        return None
    busy = busy_share(report)
    if busy is not None:
        communication = report.evidence.lookup(RUN, "device.communication_share")
        exposed = communication if isinstance(communication, float) else 0.0
        return max(0.0, busy - exposed) * step.mean_ms
    if (step.breakdown_ms.get("other") or 0.0) > MOST_OTHER * step.mean_ms:
        return None
    seen = [ms for phase in COMPUTE if (ms := step.breakdown_ms.get(phase)) is not None]
    return sum(seen) if seen and report.evidence.lookup(RUN, "device.type") == "cpu" else None


def busy_share(report: Report) -> float | None:
    """The share of the step in which kernels run on the device: of the measured steps, else of the profiled ones."""
    busy = report.evidence.lookup(RUN, "device.busy_share")
    if isinstance(busy, float):
        return busy
    return report.device.busy_share if report.device is not None else None


def _throughput(step: Step, of: str) -> Iterator[str]:
    if step.samples_per_s is not None:
        yield f"{number(step.samples_per_s)} samples/s{of}"
    if step.tokens_per_s is None:
        return
    useful = step.useful_tokens_per_s
    is_padded = useful is not None and useful < step.tokens_per_s * (1 - LEAST_PADDING)
    padded = f" ({number(useful)} without padding)" if is_padded and useful is not None else ""
    yield f"{number(step.tokens_per_s)} tokens/s{of}{padded}"
