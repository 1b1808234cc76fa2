"""One JSON object, schema 1, described by `runs.schema.json` beside this file. An unknown value is null."""

from __future__ import annotations

from typing import TYPE_CHECKING

from autotune import __version__
from autotune.model.job import FoundJobs, JobSummary
from autotune.report.json.encode import SCHEMA, dumps

if TYPE_CHECKING:
    from autotune.report.json import documents as doc


def render(found: FoundJobs, colour: bool, width: int) -> str:
    """The object in one line. Keys keep the order of the schema."""
    return dumps(document(found))


def document(found: FoundJobs) -> doc.RunsDocument:
    """The jobs as plain values."""
    return {
        "schema": SCHEMA,
        "tool": {"name": "autotune", "version": __version__},
        "jobs": [_job(job) for job in found.jobs],
        "unreadable": [{"folder": folder, "reason": reason} for folder, reason in found.unreadable],
    }


def _job(job: JobSummary) -> doc.JobRow:
    return {
        "run": job.run,
        "folder": job.folder,
        "began": job.began,
        "command": list(job.command),
        "outcome": job.outcome,
        "hosts": list(job.hosts),
        "ranks": job.ranks,
        "missing_ranks": list(job.missing_ranks),
        "device": job.device,
        "step_ms": job.step_ms,
        "planned_steps": job.planned_steps,
        "bound": job.bound,
        "bound_share": job.bound_share,
        "wait_share": job.wait_share,
        "busy_share": job.busy_share,
        "lost_share": job.lost_share,
        "hours_lost": job.hours_lost,
        "first_fix": job.first_fix,
        "first_fix_name": job.first_fix_name,
        "version": job.version,
    }
