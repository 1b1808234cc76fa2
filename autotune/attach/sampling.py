"""Looks at a running process for some seconds, four times a second: its tree, limits, GPUs and progress line."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

from msgspec import Struct

from autotune.attach import progress_file
from autotune.attach.progress_file import ProgressReading, ProgressSource
from autotune.attach.target import Target, gone
from autotune.machine import cgroup, gpu_use, limits, nvml, other_process
from autotune.machine.gpu_use import GpuReading, UsedGpu
from autotune.machine.other_process import ProcessReading
from autotune.machine.sampler import GpuSample, throttled_share

INTERVAL_S = 0.25


class Moment(Struct, frozen=True):
    """The tree at `at_s` (monotonic), the process first; what all processes of the host have used of the CPUs by then;
    and its progress line, where that could be read."""

    at_s: float
    tree: tuple[ProcessReading, ...]
    busy_cpu_s: float | None
    progress: ProgressReading | None


class Samples(Struct, frozen=True):
    """All that was read. Shares and counts as in `MachineSamples`; `why_no_gpu` and `why_no_progress` are "" where
    there is one. `quota` is CPUs by its control group, `host_cpus` those of the machine; `cores` are the physical cores
    that its mask covers."""

    moments: tuple[Moment, ...]
    quota: float | None
    host_cpus: int | None
    cores: int | None
    throttled_share: float | None
    oom_kills: int | None
    memory_limit_bytes: int | None
    memory_left_bytes: int | None
    gpus: tuple[GpuReading, ...]
    why_no_gpu: str
    why_no_progress: str

    @property
    def seconds(self) -> float:
        """How long it was looked at."""
        return self.moments[-1].at_s - self.moments[0].at_s


def sample(target: Target, seconds: float, root: Path = Path("/")) -> Samples:
    """Look at the target for `seconds`. Raises UsageError when it ends before it was seen twice."""
    pid = target.pid
    library, why_not = nvml.connect() if target.about.has_cuda is not False else (None, "it has not loaded CUDA")
    used = gpu_use.used_by(library, (pid,), target.environ) if library is not None else ()
    seen: list[list[tuple[GpuSample, int]]] = [[] for _ in used]
    sources, why_no_progress = progress_file.find(target.about, root)
    before = cgroup.throttling(root, pid)
    moments: list[Moment] = []
    began = time.monotonic()
    while True:
        moment = _moment(target, sources, root)
        if moment is None:
            break
        moments.append(moment)
        _look_at_gpus(library, used, seen)
        passed = time.monotonic() - began
        if passed >= seconds:
            break
        time.sleep(min(INTERVAL_S, seconds - passed))
    if len(moments) < 2:
        raise gone(pid)
    wall_s = moments[-1].at_s - moments[0].at_s
    gpus = [gpu_use.reading(library, one, (pid,), rows) for one, rows in zip(used, seen, strict=True)]
    return Samples(
        moments=tuple(moments),
        quota=cgroup.cpu_quota(root, pid),
        host_cpus=limits.host_cpus(root),
        cores=limits.physical_cores(root, target.about.cpus) if target.about.cpus else None,
        throttled_share=throttled_share(before, cgroup.throttling(root, pid), wall_s),
        oom_kills=cgroup.num_oom_kills(root, pid),
        memory_limit_bytes=limits.memory_limit(root, pid),
        memory_left_bytes=limits.memory_available(root, pid),
        gpus=tuple(gpus),
        why_no_gpu="" if gpus else why_not or "CUDA_VISIBLE_DEVICES shows it no GPU, or the driver lists none",
        why_no_progress=why_no_progress or _unread(sources, moments),
    )


def _moment(target: Target, sources: tuple[ProgressSource, ...], root: Path) -> Moment | None:
    tree = other_process.tree(target.pid, root)
    if not tree or tree[0].state in "ZX" or tree[0].start_ticks != target.about.start_ticks:
        return None
    line = progress_file.read(sources)
    return Moment(time.monotonic(), tree, limits.busy_cpu_s(root), line)


def _look_at_gpus(library: Any, used: tuple[UsedGpu, ...], seen: list[list[tuple[GpuSample, int]]]) -> None:
    for one, rows in zip(used, seen, strict=True):
        rows.append(gpu_use.sample(library, one))


def _unread(sources: tuple[ProgressSource, ...], moments: list[Moment]) -> str:
    if any(moment.progress is not None for moment in moments):
        return ""
    return f"the end of {' and of '.join(one.name for one in sources)} names no step"
