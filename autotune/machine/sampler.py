"""Watches a run from beside it: its processes, the control group's counters and the GPU, twice a second."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from types import TracebackType
from typing import Any

from msgspec import Struct

from autotune.machine import cgroup, nvml
from autotune.machine.tree import Tree
from autotune.machine.visible import visible
from autotune.model.evidence import RUN, Fact, Value

INTERVAL_S = 0.5


class MachineSamples(Struct, frozen=True):
    """Summary of one run; None is what could not be read. Flat, so that JSON can hold it and give it back.

    wall_s, num_samples: how long and how often it was watched.
    cpu_s, rss_peak_bytes, read_bytes, num_processes_peak: of the process tree, see `tree.Tree`.
    throttled_share: of the wall time, at most, during which the cgroup's CPU quota held a CPU back.
    num_oom_kills: processes of the control group that the kernel killed for memory meanwhile.
    gpu_kernel_share: of the first visible GPU, as the rest: share of NVML's periods with any kernel running.
    gpu_throttled_share: share of the samples with a thermal or power slow-down.
    gpu_clock_mhz, gpu_memory_peak_bytes: mean SM clock; memory used on the device, by anybody.
    gpu_pcie_generation, gpu_pcie_width: the best link seen, as an idle link sleeps.
    """

    wall_s: float
    num_samples: int
    cpu_s: float | None = None
    rss_peak_bytes: int | None = None
    read_bytes: int | None = None
    num_processes_peak: int = 0
    throttled_share: float | None = None
    num_oom_kills: int | None = None
    gpu_kernel_share: float | None = None
    gpu_throttled_share: float | None = None
    gpu_clock_mhz: float | None = None
    gpu_memory_peak_bytes: int | None = None
    gpu_pcie_generation: int | None = None
    gpu_pcie_width: int | None = None

    @property
    def was_killed_for_memory(self) -> bool:
        """Whether the kernel killed a process of this control group for memory while the run was watched."""
        return bool(self.num_oom_kills)


class GpuSample(Struct, frozen=True):
    """One look at the GPU; None is what it does not tell."""

    kernel_share: float | None
    clock_mhz: int | None
    is_slowed: bool | None
    memory_bytes: int | None
    pcie_generation: int | None
    pcie_width: int | None


class MachineSampler:
    """A thread that samples process `pid` and its descendants from `start` to `stop`.

        with MachineSampler(child.pid) as sampler:
            child.wait()
        sampler.stop().was_killed_for_memory

    `library` is an initialised pynvml or None (no GPU samples); `environ` is the run's, for
    CUDA_VISIBLE_DEVICES.
    """

    def __init__(
        self,
        pid: int,
        *,
        interval_s: float = INTERVAL_S,
        root: Path = Path("/"),
        library: nvml.Nvml | None = None,
        environ: Mapping[str, str] = os.environ,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._tree = Tree(pid)
        self._interval_s, self._root, self._clock = interval_s, root, clock
        self._library = library
        self._board = _first_board(library, environ)
        self._gpu_samples: list[GpuSample] = []
        self._num_samples = 0
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="autotune-sampler", daemon=True)
        self._sampled: MachineSamples | None = None

    def start(self) -> MachineSampler:
        """Note the counters and begin to sample."""
        self._started = self._clock()
        self._throttling = cgroup.throttling(self._root)
        self._oom_kills = cgroup.num_oom_kills(self._root)
        self._thread.start()
        return self

    def stop(self) -> MachineSamples:
        """End the thread and return the summary; a second call returns the same one."""
        if self._sampled is None:
            self._ended.set()
            self._thread.join()
            self._sampled = self._summary()
        return self._sampled

    def __enter__(self) -> MachineSampler:
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def _watch(self) -> None:
        while True:
            self._tree.read()
            if self._board is not None:
                self._gpu_samples.append(sample_once(self._library, self._board))
            self._num_samples += 1
            if self._ended.wait(self._interval_s):
                return

    def _summary(self) -> MachineSamples:
        wall_s = self._clock() - self._started
        kills = cgroup.num_oom_kills(self._root)
        return MachineSamples(
            wall_s=wall_s,
            num_samples=self._num_samples,
            cpu_s=self._tree.cpu_s,
            rss_peak_bytes=self._tree.rss_peak_bytes,
            read_bytes=self._tree.read_bytes,
            num_processes_peak=self._tree.num_processes_peak,
            throttled_share=throttled_share(self._throttling, cgroup.throttling(self._root), wall_s),
            num_oom_kills=None if kills is None or self._oom_kills is None else kills - self._oom_kills,
            **summarise(self._gpu_samples),
        )


def throttled_share(
    before: Mapping[Path, cgroup.Throttling], after: Mapping[Path, cgroup.Throttling], wall_s: float
) -> float | None:
    """Share of the wall time, at most, in which a quota held a CPU back, at the level where that is most.

    The kernel adds the waits of all CPUs up, so 4 CPUs that wait together give 4 s in one second. The share
    of periods in which any CPU had to wait bounds the time from above as well; the lower bound is returned.
    """
    shares = []
    for folder in before.keys() & after.keys():
        periods = after[folder].num_periods - before[folder].num_periods
        throttled = after[folder].num_throttled - before[folder].num_throttled
        waited = after[folder].throttled_s - before[folder].throttled_s
        shares.append(min(waited / wall_s, throttled / periods) if periods > 0 and wall_s > 0 else 0.0)
    return max(shares, default=None)


def sample_once(library: nvml.Nvml, board: Any) -> GpuSample:
    """One sample of the GPU with NVML handle `board`."""
    utilisation = nvml.ask(library, "nvmlDeviceGetUtilizationRates", board)
    clock = nvml.ask(library, "nvmlDeviceGetClockInfo", board, nvml.CLOCK_SM)
    mask = nvml.clock_reasons(library, board)
    memory = nvml.ask(library, "nvmlDeviceGetMemoryInfo", board)
    return GpuSample(
        kernel_share=None if utilisation is None else utilisation.gpu / 100,
        clock_mhz=clock,
        is_slowed=None if mask is None else nvml.is_slowed(library, board, mask),
        memory_bytes=None if memory is None else int(memory.used),
        pcie_generation=nvml.ask(library, "nvmlDeviceGetCurrPcieLinkGeneration", board),
        pcie_width=nvml.ask(library, "nvmlDeviceGetCurrPcieLinkWidth", board),
    )


def summarise(samples: list[GpuSample]) -> dict[str, Any]:
    """The gpu_* fields of `MachineSamples`: means of shares and clocks, maxima of sizes and links."""
    return {
        "gpu_kernel_share": _mean([sample.kernel_share for sample in samples]),
        "gpu_throttled_share": _mean([sample.is_slowed for sample in samples]),
        "gpu_clock_mhz": _mean([sample.clock_mhz for sample in samples]),
        "gpu_memory_peak_bytes": _largest([sample.memory_bytes for sample in samples]),
        "gpu_pcie_generation": _largest([sample.pcie_generation for sample in samples]),
        "gpu_pcie_width": _largest([sample.pcie_width for sample in samples]),
    }


def facts(sampled: MachineSamples) -> tuple[Fact, ...]:
    """The facts that only a run can teach."""
    cpus_used = None if sampled.cpu_s is None or sampled.wall_s <= 0 else sampled.cpu_s / sampled.wall_s
    values: dict[str, Value | None] = {
        "machine.cpus_used": cpus_used,
        "machine.rss_peak_bytes": sampled.rss_peak_bytes,
        "machine.read_bytes": sampled.read_bytes,
        "machine.throttled_share": sampled.throttled_share,
        "machine.num_oom_kills": sampled.num_oom_kills,
        "machine.gpu_kernel_share": sampled.gpu_kernel_share,
        "machine.gpu_throttled_share": sampled.gpu_throttled_share,
        "machine.gpu_clock_mhz": sampled.gpu_clock_mhz,
        "machine.gpu_pcie_generation": sampled.gpu_pcie_generation,
        "machine.gpu_pcie_width": sampled.gpu_pcie_width,
    }
    return tuple(Fact(name, RUN, value) for name, value in values.items() if value is not None)


def _first_board(library: nvml.Nvml | None, environ: Mapping[str, str]) -> Any | None:
    """NVML handle of the first visible GPU, for a MIG slice its board: slices tell no clocks."""
    devices = visible(library, environ) if library is not None else ()
    return devices[0].board if devices else None


def _mean(values: list[float | None] | list[int | None] | list[bool | None]) -> float | None:
    known = [value for value in values if value is not None]
    return sum(known) / len(known) if known else None


def _largest(values: list[int | None]) -> int | None:
    return max((value for value in values if value is not None), default=None)
