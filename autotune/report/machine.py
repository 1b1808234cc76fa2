"""The machine and the software of a run, in one line."""

from __future__ import annotations

from autotune.catalogue.frameworks import frameworks
from autotune.model.evidence import RUN
from autotune.model.report import Report
from autotune.outlet import clean
from autotune.report.units import size

_NUM_LIBRARIES = 4


def line(report: Report) -> str:
    """ "1x H100 80 GiB, 16 cores; torch 2.13.0, trl 1.16.0, Python 3.11.9"; "unknown"."""
    return "; ".join(part for part in (_hardware(report), _software(report)) if part) or "unknown"


def _hardware(report: Report) -> str:
    parts = [_gpus(report), _cores(report)]
    if report.run.num_processes > 1:
        parts.append(f"{report.run.num_processes} processes")
    return ", ".join(part for part in parts if part)


def _gpus(report: Report) -> str:
    machine = report.machine
    name, memory = machine.get("gpu_name"), machine.get("gpu_memory_bytes")
    if not name:
        return ""
    amount = f" {size(memory)}" if isinstance(memory, int | float) else ""
    idle = " (not used: the model is on the CPU)" if report.evidence.lookup(RUN, "device.type") == "cpu" else ""
    return f"{machine.get('num_gpus', 1)}x {name}{amount}{idle}"


def _cores(report: Report) -> str:
    machine = report.machine
    quota, host, name = machine.get("cpu_quota"), machine.get("host_cpus"), machine.get("cpu_name")
    if not isinstance(quota, int | float):
        return ""
    noun = "core" if quota == 1 else "cores"
    limited = f" by quota or affinity (host has {host})" if isinstance(host, int) and host > quota else ""
    model = f" {name}" if name and not machine.get("gpu_name") else ""
    return f"{quota:g} {noun}{limited}{model}"


def _software(report: Report) -> str:
    of_frameworks = (name for one in frameworks().values() for name in one.distributions[:1])
    libraries = ("torch", *of_frameworks, "peft", "datasets")
    found = [f"{name} {report.software[name]}" for name in libraries if name in report.software][:_NUM_LIBRARIES]
    python = report.software.get("python", "")
    source = f" ({clean(report.run.python_from)})" if report.run.python_from else ""
    return ", ".join([*found, f"Python {python}{source}"] if python else found)
