"""The machine and the software of a run, in one line."""

from __future__ import annotations

from collections.abc import Mapping

from autotune.catalogue.frameworks import frameworks
from autotune.model.evidence import RUN, Value
from autotune.model.report import Report
from autotune.outlet import clean
from autotune.report.units import size

_NUM_LIBRARIES = 4


def line(report: Report) -> str:
    """ "1x H100 80 GiB, 16 cores; torch 2.13.0, trl 1.16.0, Python 3.11.9"; "unknown"."""
    idle = " (not used: the model is on the CPU)" if report.evidence.lookup(RUN, "device.type") == "cpu" else ""
    source = f" ({clean(report.run.python_from)})" if report.run.python_from else ""
    return environment(report.machine, report.software, report.run.num_processes, idle, source) or "unknown"


def environment(
    machine: Mapping[str, Value], software: Mapping[str, str], num_processes: int = 1, idle: str = "", source: str = ""
) -> str:
    """The same from facts of the machine (without "machine.") and versions; `idle` is said of the GPUs, `source` of the
    Python. "" where nothing is known."""
    hardware = [_gpus(machine, idle), _cores(machine), f"{num_processes} processes" if num_processes > 1 else ""]
    parts = (", ".join(part for part in hardware if part), _software(software, source))
    return "; ".join(part for part in parts if part)


def _gpus(machine: Mapping[str, Value], idle: str) -> str:
    name, memory = machine.get("gpu_name"), machine.get("gpu_memory_bytes")
    if not name:
        return ""
    amount = f" {size(memory)}" if isinstance(memory, int | float) else ""
    return f"{machine.get('num_gpus', 1)}x {name}{amount}{idle}"


def _cores(machine: Mapping[str, Value]) -> str:
    quota, host, name = machine.get("cpu_quota"), machine.get("host_cpus"), machine.get("cpu_name")
    if not isinstance(quota, int | float):
        return ""
    noun = "core" if quota == 1 else "cores"
    limited = f" by quota or affinity (host has {host})" if isinstance(host, int) and host > quota else ""
    model = f" {name}" if name and not machine.get("gpu_name") else ""
    return f"{quota:g} {noun}{limited}{model}"


def _software(software: Mapping[str, str], source: str) -> str:
    of_frameworks = (name for one in frameworks().values() for name in one.distributions[:1])
    libraries = ("torch", *of_frameworks, "peft", "datasets")
    found = [f"{name} {software[name]}" for name in libraries if name in software][:_NUM_LIBRARIES]
    python = software.get("python", "")
    return ", ".join([*found, f"Python {python}{source}"] if python else found)
