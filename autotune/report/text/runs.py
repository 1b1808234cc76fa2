"""One line for each job: a table of what is known."""

from __future__ import annotations

import shlex

from autotune.model.job import FoundJobs, JobSummary
from autotune.outlet import clean
from autotune.report.text.layout import StyledLine, cells, pad, shorten, to_text
from autotune.report.units import percent, step_time

HEADS = ("when (UTC)", "hosts", "ranks", "step", "bound by", "waits", "lost", "h lost", "first fix", "command")
_RIGHT = frozenset((2, 3, 5, 6, 7))
_WIDEST_HOSTS, _WIDEST_FIX, LEAST_COMMAND = 14, 24, 20
_TO_MINUTES = len("2026-11-24T09:30")


def render(found: FoundJobs, colour: bool, width: int) -> str:
    """The newest first. What is not known is "-"."""
    if not found.jobs:
        return "No job could be read.\n"
    rows = [_row(job) for job in found.jobs]
    widths = [max(map(cells, column)) for column in zip(HEADS, *rows, strict=True)]
    widths[-1] = max(LEAST_COMMAND, width - sum(widths[:-1]) - 2 * (len(widths) - 1))
    lines = [StyledLine(_line(HEADS, widths), "heading"), *(StyledLine(_line(row, widths)) for row in rows)]
    return to_text(lines, colour, max(width, sum(widths) + 2 * (len(widths) - 1)))


def _line(row: tuple[str, ...], widths: list[int]) -> str:
    texts = [
        text.rjust(width) if at in _RIGHT else pad(text, width)
        for at, (text, width) in enumerate(zip(row, widths, strict=True))
    ]
    texts[-1] = shorten(row[-1], widths[-1])
    return "  ".join(texts).rstrip()


def _row(job: JobSummary) -> tuple[str, ...]:
    missing = f" ({len(job.missing_ranks)} missing)" if job.missing_ranks else ""
    bound = f"{job.bound.replace('_', ' ')} {percent(job.bound_share)}" if job.bound and job.bound_share else "-"
    fix = f"{job.first_fix} {job.first_fix_name}" if job.first_fix else "-"
    return (
        clean(job.began or "-")[:_TO_MINUTES].replace("T", " "),
        shorten(clean(_hosts(job)), _WIDEST_HOSTS),
        "-" if job.ranks is None else f"{job.ranks}{missing}",
        "-" if job.step_ms is None else step_time(job.step_ms),
        bound if job.step_ms is not None else clean(job.outcome.replace("_", " ")),
        "-" if job.wait_share is None else percent(job.wait_share),
        "-" if job.lost_share is None else percent(job.lost_share),
        "-" if job.hours_lost is None else f"{job.hours_lost:,.1f}",
        shorten(clean(fix), _WIDEST_FIX),
        clean(shlex.join(job.command)) or "-",
    )


def _hosts(job: JobSummary) -> str:
    if not job.hosts:
        return "-"
    return job.hosts[0] if len(job.hosts) == 1 else f"{job.hosts[0]} +{len(job.hosts) - 1}"
