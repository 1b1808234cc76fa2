"""The line of a job that `autotune runs` prints, kept in its run folder as `summary.json`."""

from __future__ import annotations

import contextlib
import time
from pathlib import Path

from msgspec import Struct, ValidationError, convert, to_builtins
from msgspec.structs import replace

from autotune.collect import artefacts
from autotune.errors import UsageError
from autotune.model.job import JobSummary
from autotune.model.report import Report
from autotune.report.job_summary import job_summary

FILE = "summary.json"
SCHEMA = 1
ISO = "%Y-%m-%dT%H:%M:%SZ"


class StoredSummary(Struct, frozen=True):
    """A line; the folder of the job's parts ("" where one autotune recorded it), and whether this is one of these."""

    summary: JobSummary
    job: str = ""
    is_part: bool = False


def save(report: Report, folder: Path, wall_s: float) -> None:
    """Keep the line of a report on a run that ended just now and took `wall_s`. Where it cannot be kept, `runs` makes
    it again."""
    line = job_summary(report, folder.name, iso(time.time() - wall_s))
    _write(StoredSummary(line, report.run.job, report.run.is_part), folder)


def complete(folder: Path, trained_s: float) -> None:
    """Training went on after its report (`--keep-going`) and has ended, `trained_s` after its first step: where nobody
    knew how long it would run, the hours that it lost are known now."""
    stored = read(folder)
    if stored is None or stored.summary.lost_share is None or stored.summary.hours_lost is not None:
        return
    line = replace(stored.summary, hours_lost=stored.summary.lost_share * trained_s / 3600)
    _write(replace(stored, summary=line), folder)


def _write(stored: StoredSummary, folder: Path) -> None:
    with contextlib.suppress(OSError, ValueError):
        artefacts.write_json(folder / FILE, {"schema": SCHEMA, **to_builtins(stored)})


def read(folder: Path) -> StoredSummary | None:
    """None where there is none, or one of another version: it is made again from the Recordings."""
    if not (folder / FILE).is_file():
        return None
    try:
        row = artefacts.read_json(folder / FILE)
        if not isinstance(row, dict) or row.pop("schema", None) != SCHEMA:
            return None
        return convert(row, StoredSummary)
    except (UsageError, ValidationError):
        return None


def iso(moment: float) -> str:
    """Seconds since 1970 as UTC: "2026-11-24T09:30:00Z"."""
    return time.strftime(ISO, time.gmtime(moment))
