"""A CSV table with a head: one line for each job, empty where nothing is known.

Cells are quoted as RFC 4180 says; lines end in "\\n", for tools of Unix.
"""

from __future__ import annotations

import csv
import io
import shlex

from autotune.model.job import FoundJobs, JobSummary
from autotune.outlet import clean

FORMULA = ("=", "+", "-", "@")
"""A spreadsheet computes a text that begins so: it is written with an apostrophe in front."""

HEADS = (
    "began", "run", "command", "outcome", "hosts", "num_hosts", "ranks", "missing_ranks", "device", "step_ms",
    "planned_steps", "bound", "bound_share", "wait_share", "busy_share", "lost_share", "hours_lost", "first_fix",
    "first_fix_name", "version", "folder",
)  # fmt: skip


def render(found: FoundJobs, colour: bool, width: int) -> str:
    """The newest first. Shares are 0..1; hosts and missing ranks are joined by spaces."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(HEADS)
    writer.writerows([_cell(value) for value in _row(job)] for job in found.jobs)
    return text.getvalue()


def _row(job: JobSummary) -> tuple[str | int | float | None, ...]:
    return (
        job.began,
        job.run,
        shlex.join(job.command) or None,
        job.outcome,
        " ".join(job.hosts) or None,
        len(job.hosts) or None,
        job.ranks,
        " ".join(map(str, job.missing_ranks)) or None,
        job.device,
        job.step_ms,
        job.planned_steps,
        job.bound,
        job.bound_share,
        job.wait_share,
        job.busy_share,
        job.lost_share,
        job.hours_lost,
        job.first_fix,
        job.first_fix_name,
        job.version,
        job.folder,
    )


def _cell(value: str | int | float | None) -> str:
    if value is None:
        return ""
    if isinstance(value, float):
        return f"{value:.6g}"
    text = clean(str(value))
    return f"'{text}" if isinstance(value, str) and text.startswith(FORMULA) else text
