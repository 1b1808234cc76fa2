"""The GPUs that a CUDA program started here would see, read through NVML. No driver, no facts."""

from __future__ import annotations

import os
from collections.abc import Collection, Mapping
from typing import Any

from msgspec import Struct

from autotune.machine import nvml
from autotune.machine.visible import Device, is_order_known, visible
from autotune.model.evidence import RUN, Fact, Value


class Gpu(Struct, frozen=True):
    """One visible GPU before the run; None is what NVML does not tell of this one.

    Memory in bytes, clocks in MHz of the SMs, `slow_downs` the thermal and power reasons for a low clock now,
    `foreign_pids` the compute processes that are not ours (numbers of the host when we are in a container).
    """

    name: str | None
    uuid: str | None
    memory_bytes: int | None
    capability: tuple[int, ...] | None
    pcie_generation: int | None
    pcie_max_generation: int | None
    pcie_width: int | None
    pcie_max_width: int | None
    clock_mhz: int | None
    max_clock_mhz: int | None
    slow_downs: tuple[str, ...] | None
    foreign_pids: tuple[int, ...] | None


class Gpus(Struct, frozen=True):
    """The visible GPUs in CUDA's order, the driver, the newest CUDA that it runs, and why there is no GPU.

    `is_order_known` is False where GPUs of several models are in the machine and CUDA sorts them by speed:
    which of them is the first is then not known.
    """

    devices: tuple[Gpu, ...] = ()
    driver: str | None = None
    cuda: tuple[int, ...] | None = None
    is_order_known: bool = True
    why_not: str = ""


def read(
    library: nvml.Nvml | None = None,
    environ: Mapping[str, str] = os.environ,
    own_pids: Collection[int] = (),
) -> Gpus:
    """What NVML says of the visible GPUs. `library` is an initialised pynvml, or None to open our own."""
    why_not = ""
    if library is None:
        library, why_not = nvml.connect()
    if library is None:
        return Gpus(why_not=why_not)
    chosen = visible(library, environ)
    return Gpus(
        devices=tuple(_gpu(library, device, frozenset(own_pids)) for device in chosen),
        driver=nvml.text(nvml.ask(library, "nvmlSystemGetDriverVersion")),
        cuda=_cuda(nvml.ask(library, "nvmlSystemGetCudaDriverVersion_v2")),
        is_order_known=is_order_known(library, environ),
        why_not="" if chosen else _why_none(environ),
    )


def facts(gpus: Gpus) -> tuple[Fact, ...]:
    """The GPU facts. The number of GPUs is a fact only where a driver could count them."""
    values: dict[str, Value | None] = {}
    if gpus.driver is not None:
        values |= {"machine.driver": gpus.driver, "machine.driver_cuda": gpus.cuda}
        values["machine.num_gpus"] = len(gpus.devices)
    if gpus.devices and gpus.is_order_known:
        values |= _of_first(gpus.devices[0])
    counts = [len(gpu.foreign_pids) for gpu in gpus.devices if gpu.foreign_pids is not None]
    if counts:
        values["machine.num_foreign_gpu_processes"] = sum(counts)
    return tuple(Fact(name, RUN, value) for name, value in values.items() if value is not None)


def _of_first(gpu: Gpu) -> dict[str, Value | None]:
    return {
        "machine.gpu_name": gpu.name,
        "machine.gpu_memory_bytes": gpu.memory_bytes,
        "machine.gpu_capability": gpu.capability,
        "machine.gpu_max_clock_mhz": gpu.max_clock_mhz,
        "machine.gpu_pcie_max_generation": gpu.pcie_max_generation,
        "machine.gpu_pcie_max_width": gpu.pcie_max_width,
        "machine.gpu_slow_downs": ", ".join(gpu.slow_downs) if gpu.slow_downs else None,
    }


def _gpu(library: nvml.Nvml, device: Device, own_pids: frozenset[int]) -> Gpu:
    def ask(name: str, *arguments: Any) -> Any | None:
        return nvml.ask(library, name, device.handle, *arguments)

    def ask_board(name: str, *arguments: Any) -> Any | None:
        return nvml.ask(library, name, device.board, *arguments)

    memory = ask("nvmlDeviceGetMemoryInfo")
    capability = ask_board("nvmlDeviceGetCudaComputeCapability")
    mask = nvml.clock_reasons(library, device.board)
    processes = ask("nvmlDeviceGetComputeRunningProcesses")
    return Gpu(
        name=nvml.text(ask("nvmlDeviceGetName")),
        uuid=nvml.text(ask("nvmlDeviceGetUUID")),
        memory_bytes=None if memory is None else int(memory.total),
        capability=None if capability is None else tuple(int(part) for part in capability),
        pcie_generation=ask_board("nvmlDeviceGetCurrPcieLinkGeneration"),
        pcie_max_generation=ask_board("nvmlDeviceGetMaxPcieLinkGeneration"),
        pcie_width=ask_board("nvmlDeviceGetCurrPcieLinkWidth"),
        pcie_max_width=ask_board("nvmlDeviceGetMaxPcieLinkWidth"),
        clock_mhz=ask_board("nvmlDeviceGetClockInfo", nvml.CLOCK_SM),
        max_clock_mhz=ask_board("nvmlDeviceGetMaxClockInfo", nvml.CLOCK_SM),
        slow_downs=None if mask is None else nvml.slow_downs(mask),
        foreign_pids=None if processes is None else _foreign(processes, own_pids),
    )


def _foreign(processes: Collection[Any], own_pids: frozenset[int]) -> tuple[int, ...]:
    return tuple(sorted({int(process.pid) for process in processes} - own_pids))


def _cuda(version: int | None) -> tuple[int, ...] | None:
    """12080 is CUDA 12.8."""
    return None if version is None else (version // 1000, version % 1000 // 10)


def _why_none(environ: Mapping[str, str]) -> str:
    chosen = environ.get("CUDA_VISIBLE_DEVICES")
    return "the driver lists no GPU" if chosen is None else f"CUDA_VISIBLE_DEVICES={chosen!r} shows no GPU"
