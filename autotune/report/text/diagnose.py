"""The printed report: sections between empty lines, each from a module of its own."""

from __future__ import annotations

from autotune.catalogue.frameworks import frameworks
from autotune.model.evidence import RUN
from autotune.model.report import Report
from autotune.outlet import clean
from autotune.report.text import (
    advice,
    breakdown,
    coverage,
    device,
    device_options,
    failure,
    footer,
    memory,
    ranks,
    restart_advice,
    run_time,
    startup,
    verdict,
)
from autotune.report.text.layout import MIN_WIDTH, StyledLine, to_text, wrap
from autotune.report.units import size

_SECTIONS = (
    failure.lines,
    verdict.lines,
    run_time.lines,
    restart_advice.lines,
    breakdown.lines,
    device.lines,
    ranks.lines,
    startup.lines,
    advice.unchanged_lines,
    advice.decision_lines,
    advice.question_lines,
    device_options.lines,
)
_NUM_LIBRARIES = 4


def render(report: Report, colour: bool, width: int) -> str:
    """The report in lines of at most `width` columns (MIN_WIDTH at least)."""
    width = max(width, MIN_WIDTH)
    blocks = [_machine(report, width)]
    blocks += [section(report, width) for section in _SECTIONS]
    blocks.append([*memory.lines(report, width), *coverage.lines(report, width), *footer.lines(report, width)])
    blocks.append(footer.next_lines(report, width))
    lines = [line for block in blocks if block for line in (StyledLine(""), *block)]
    return to_text(lines[1:], colour, width)


def _machine(report: Report, width: int) -> list[StyledLine]:
    parts = (_hardware(report), _software(report))
    return wrap("; ".join(part for part in parts if part) or "Machine unknown", width)


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
