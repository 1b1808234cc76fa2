"""Prometheus' text format 0.0.4, as node_exporter's textfile collector reads it: gauges with the labels of a job.

What is not known has no sample: a sample of 0 would be a measured zero.
"""

from __future__ import annotations

import shlex
from collections.abc import Callable

from msgspec import Struct

from autotune.model.job import FoundJobs, JobSummary
from autotune.outlet import clean


class Metric(Struct, frozen=True):
    """A gauge: its name, what it says, and its value for a job (None: no sample)."""

    name: str
    help: str
    value: Callable[[JobSummary], float | int | None]


def _step_s(job: JobSummary) -> float | None:
    return None if job.step_ms is None else job.step_ms / 1000


def _lost(job: JobSummary) -> float | None:
    return None if job.hours_lost is None else 3600 * job.hours_lost


def _missing(job: JobSummary) -> int | None:
    return None if job.ranks is None else len(job.missing_ranks)


METRICS = (
    Metric("autotune_step_seconds", "Mean time of an optimizer step.", _step_s),
    Metric("autotune_bound_ratio", "Share of a step of what takes most of it.", lambda job: job.bound_share),
    Metric("autotune_wait_ratio", "Share of a step: waits for data or a rank.", lambda job: job.wait_share),
    Metric("autotune_device_busy_ratio", "Share of a step in which kernels run.", lambda job: job.busy_share),
    Metric("autotune_lost_ratio", "Share of a step that the proposed changes would save.", lambda job: job.lost_share),
    Metric("autotune_lost_seconds", "What the proposed changes would save of the run, as predicted.", _lost),
    Metric("autotune_ranks", "Processes of the job.", lambda job: job.ranks),
    Metric("autotune_missing_ranks", "Ranks without a recording.", _missing),
    Metric("autotune_hosts", "Machines of the recorded ranks.", lambda job: len(job.hosts) or None),
)  # fmt: skip
INFO = "autotune_run_info"


def render(found: FoundJobs, colour: bool, width: int) -> str:
    """A group for each metric that any job has; `autotune_run_info` joins a run with its command and first fix."""
    lines = [f"# HELP {INFO} A diagnosed job; 1.", f"# TYPE {INFO} gauge"]
    lines += [f"{INFO}{_labels({**_of(job), **_about(job)})} 1" for job in found.jobs]
    for metric in METRICS:
        samples = [(job, value) for job in found.jobs if (value := metric.value(job)) is not None]
        if samples:
            lines += [f"# HELP {metric.name} {metric.help}", f"# TYPE {metric.name} gauge"]
            lines += [f"{metric.name}{_labels(_of(job))} {value:.9g}" for job, value in samples]
    return "\n".join(lines) + "\n"


def _of(job: JobSummary) -> dict[str, str]:
    """What tells series apart: runs in two projects may have one name."""
    return {"run": job.run, "folder": job.folder}


def _about(job: JobSummary) -> dict[str, str]:
    return {
        "began": job.began or "",
        "command": shlex.join(job.command),
        "outcome": job.outcome,
        "hosts": " ".join(job.hosts),
        "device": job.device or "",
        "bound": job.bound or "",
        "first_fix": job.first_fix or "",
    }


def _labels(values: dict[str, str]) -> str:
    """`{name="value",...}`; an empty label is none."""
    return "{" + ",".join(f'{name}="{_escaped(value)}"' for name, value in values.items() if value) + "}"


def _escaped(value: str) -> str:
    return clean(value).replace("\\", "\\\\").replace('"', '\\"')
