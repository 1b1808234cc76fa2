"""How fast the run is, in what it is for: samples and tokens per second, how busy the device is, MFU."""

from __future__ import annotations

from collections.abc import Iterator

from autotune.model.evidence import RUN
from autotune.model.report import Report, Step
from autotune.report.units import number, percent

LEAST_PADDING = 0.01
"""Of the tokens: less padding is not told apart."""


def parts(report: Report) -> Iterator[str]:
    """ "9.2 samples/s", "25,300 tokens/s (17,400 without padding)", "device busy 93 %", "MFU 41 %"; what is unknown is
    left out."""
    if report.step is None:
        return
    yield from _throughput(report.step, " per process" if report.run.num_processes > 1 else "")
    busy = busy_share(report)
    if busy is not None:
        yield f"device busy {percent(busy)}"
    mfu = report.evidence.lookup(RUN, "device.mfu_share")
    if isinstance(mfu, float):
        yield f"MFU {percent(mfu)}"


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
