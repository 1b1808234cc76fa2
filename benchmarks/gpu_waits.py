"""Counts the waits for the device that the probe adds. Needs a GPU: exits 3 without.

A raw loop is profiled in this process, with every hook and CUDA event of the probe and natively: the calls per step
in which the host waits for the device have to be the same. What one mark of the device's clock costs is printed, too.
"""

from __future__ import annotations

import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import measuring

NO_GPU = 3
WAITS = ("cudaStreamSynchronize", "cudaDeviceSynchronize", "cudaEventSynchronize")
STEPS = 20


def loop() -> Callable[[], None]:
    """One step of a raw loop, without any read of the device."""
    import torch

    model = torch.nn.Sequential(*(torch.nn.Linear(512, 512) for _ in range(8))).cuda()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, foreach=True)
    inputs = torch.randn(64, 512).pin_memory()

    def step() -> None:
        batch = inputs.to("cuda", non_blocking=True)
        (model(batch) - batch).square().mean().backward()
        optimizer.step()
        optimizer.zero_grad()

    return step


def waits(step: Callable[[], None]) -> Counter[str]:
    """Calls of STEPS steps in which the host waited for the device, by name."""
    from torch.profiler import ProfilerActivity, profile

    step()
    profiler = profile(activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA])
    profiler.start()
    begin = time.time_ns()
    for _ in range(STEPS):
        step()
    end = time.time_ns()
    # The profiler itself waits for the device when it stops.
    profiler.stop()
    trace = profiler.profiler
    assert trace is not None, "the profiler was started"
    results: Any = trace.kineto_results
    return Counter(
        event.name() for event in results.events() if event.name() in WAITS and begin <= event.start_ns() < end
    )


def added_waits(folder: Path) -> str:
    """The counts inside an endless window and natively, and what one mark of the device's clock costs."""
    from autotune.collect.request import Request, as_json
    from autotune.probe import device_clock
    from autotune.probe.session import ProbeSession

    session = ProbeSession(as_json(Request(steps=10**6, warmup=1), folder, None))
    # First: torch wraps an optimizer's step only once, at its first instance.
    session.install()
    probed = waits(loop())
    marks = session.recorder.device_clock
    if marks is None:
        raise SystemExit("gpu_waits: the window did not begin")
    spent_us, count = marks.cost_ns() / 1e3, len(device_clock.stop(session.recorder))
    session.ended = True
    session.detach()
    native = waits(loop())
    head = ["call", "native", "probed"]
    rows = [[name, f"{native[name] / STEPS:g}", f"{probed[name] / STEPS:g}"] for name in WAITS]
    ratio = (probed.total() - native.total()) / max(1, native.total())
    added = f"synchronisations added: {probed.total() - native.total()} in {STEPS} steps ({ratio:+.1%})"
    return f"{measuring.table(head, rows)}\n{added}\nmarks: {count}, {spent_us / max(1, count):.1f} us each"


def main() -> None:
    import torch

    if not torch.cuda.is_available():
        print("gpu_waits: torch does not see a CUDA device; nothing was measured", file=sys.stderr)
        raise SystemExit(NO_GPU)
    with tempfile.TemporaryDirectory(prefix="gpu-waits-") as name:
        print(added_waits(Path(name)))


if __name__ == "__main__":
    main()
