"""The GPUs of a process that somebody else started, read through NVML while it runs."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

from msgspec import Struct

from autotune.machine import nvml
from autotune.machine.sampler import GpuSample, sample_once, summarise
from autotune.machine.visible import Device, visible


class UsedGpu(Struct, frozen=True):
    """A device that a process computes on; `is_certain` where NVML lists the process there, or it sees no other one."""

    device: Device
    is_certain: bool


class GpuReading(Struct, frozen=True):
    """What NVML said of one device meanwhile, as the gpu_* fields of `MachineSamples` (`summary`), and in the end:
    bytes of the processes that were asked for, bytes in use and in all, how many other processes compute there."""

    name: str | None
    summary: Mapping[str, Any]
    slow_downs: tuple[str, ...]
    process_bytes: int | None
    used_bytes: int | None
    total_bytes: int | None
    other_processes: int | None
    is_certain: bool


def used_by(library: nvml.Nvml, pids: Collection[int], environ: Mapping[str, str]) -> tuple[UsedGpu, ...]:
    """The devices on which NVML lists one of `pids`; where it lists none (in a container its numbers are those of the
    host), the first that CUDA shows in `environ`: which of several a local rank chose is not told."""
    everything = visible(library, {})
    listed = [device for device in everything if set(pids) & {pid for pid, _ in _processes(library, device) or ()}]
    if listed:
        return tuple(UsedGpu(device, True) for device in listed)
    shown = visible(library, environ)
    return tuple(UsedGpu(device, len(shown) == 1) for device in shown[:1])


def sample(library: nvml.Nvml, used: UsedGpu) -> tuple[GpuSample, int]:
    """One look: the sample, and the mask of NVML's reasons for a low clock."""
    return sample_once(library, used.device.board), nvml.clock_reasons(library, used.device.board) or 0


def reading(
    library: nvml.Nvml, used: UsedGpu, pids: Collection[int], samples: Sequence[tuple[GpuSample, int]]
) -> GpuReading:
    """The samples of one device together, with its memory and its processes now."""
    memory = nvml.ask(library, "nvmlDeviceGetMemoryInfo", used.device.handle)
    processes = _processes(library, used.device)
    own = [size for pid, size in processes or () if pid in pids and size is not None]
    reasons = 0
    for one, mask in samples:
        reasons |= mask if one.is_slowed else 0
    return GpuReading(
        name=nvml.text(nvml.ask(library, "nvmlDeviceGetName", used.device.handle)),
        summary=summarise([one for one, _ in samples]),
        slow_downs=nvml.slow_downs(reasons),
        process_bytes=sum(own) if own else None,
        used_bytes=None if memory is None else int(memory.used),
        total_bytes=None if memory is None else int(memory.total),
        other_processes=_others(processes, pids),
        is_certain=used.is_certain,
    )


def _others(processes: Sequence[tuple[int, int | None]] | None, pids: Collection[int]) -> int | None:
    """None where `pids` are not among them: in a container they have other numbers there."""
    found = {pid for pid, _ in processes or ()}
    return len(found - set(pids)) if found & set(pids) else None


def _processes(library: nvml.Nvml, device: Device) -> list[tuple[int, int | None]] | None:
    """(number, bytes) of the compute processes; None where NVML does not tell."""
    found = nvml.ask(library, "nvmlDeviceGetComputeRunningProcesses", device.handle)
    return None if found is None else [(int(one.pid), one.usedGpuMemory) for one in found]
