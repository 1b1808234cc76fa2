"""runs: from folders to one line for each job that was diagnosed below them.

A run folder keeps its line (`summary.json`) as it was when the job was measured, so that a thousand of them are read in
seconds; of a run without one it is made from its Recordings. A job of several nodes has one line: that of the run which
joined its parts, else that of its folder.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

from msgspec.structs import replace

from autotune.collect import artefacts, job_parts
from autotune.diagnose import job_summaries
from autotune.diagnose.diagnose import load
from autotune.errors import AutotuneError, UsageError
from autotune.history import results
from autotune.model.job import FoundJobs, JobSummary
from autotune.report.job_summary import job_summary

PRUNED = frozenset(("node_modules", "site-packages", "__pycache__"))
"""Folders in which no project is looked for; nor in hidden ones."""


def runs(folders: Sequence[Path]) -> FoundJobs:
    """The jobs of all projects below `folders`, which may also be a project's runs or one of them.

    Raises UsageError where there is no folder, or none holds a run.
    """
    lines: dict[Path, JobSummary] = {}
    unreadable: list[tuple[str, str]] = []
    joined: set[str] = set()
    for folder in _candidates(folders):
        try:
            line, job, is_part = _line(folder)
        except AutotuneError as error:
            unreadable.append((str(folder), error.what))
            continue
        if not is_part:
            lines[folder] = line
        if job and not is_part:
            joined.add(os.path.realpath(job))
    # What a run has joined is told there. A part whose job nobody joined is told by the job's folder.
    kept = [line for folder, line in lines.items() if os.path.realpath(folder) not in joined]
    if not kept and not unreadable:
        where = ", ".join(map(str, folders))
        raise UsageError("no diagnosed job was found", where=where, to_do="Diagnose one: autotune diagnose SCRIPT")
    return FoundJobs(tuple(sorted(kept, key=lambda line: line.began or "", reverse=True)), tuple(unreadable))


def _candidates(folders: Sequence[Path]) -> Iterator[Path]:
    """Folders of runs and of jobs, each once."""
    seen: set[str] = set()
    for top in folders:
        if not top.is_dir():
            raise UsageError("there is no such folder", where=str(top), to_do="Name the folder of a project, or above.")
        for folder in _below(top):
            real = os.path.realpath(folder)
            if real not in seen:
                seen.add(real)
                yield folder


def _below(top: Path) -> Iterator[Path]:
    if _is_run(top) or _is_job(top):
        yield top
        return
    for path, names, _ in os.walk(top):
        here = Path(path)
        names[:] = sorted(name for name in names if _is_walked(name))
        children = [here / name for name in names]
        found = [folder for folder in children if _is_run(folder) or _is_job(folder)]
        yield from found
        names[:] = [name for name in names if here / name not in set(found)]


def _is_walked(name: str) -> bool:
    return name == artefacts.FOLDER or (not name.startswith(".") and name not in PRUNED)


def _is_run(folder: Path) -> bool:
    """Whether it is of a diagnosis, and not of a search, whose diagnosis has a run of its own, or of `fit`."""
    return (
        not (folder / results.FIT).is_file()
        and any((folder / name).is_file() for name in (job_summaries.FILE, artefacts.MANIFEST))
        and any(True for _ in folder.glob("recording-*.json"))
    )


def _is_job(folder: Path) -> bool:
    return any(True for _ in folder.glob(f"{job_parts.PREFIX}*/{job_parts.ABOUT}")) and not _is_run(folder)


def _line(folder: Path) -> tuple[JobSummary, str, bool]:
    """The line of a folder, the folder of its job ("" for none), and whether it is a part of that."""
    stored = job_summaries.read(folder)
    if stored is not None:
        return replace(stored.summary, run=folder.name, folder=str(folder)), stored.job, stored.is_part
    report = load(str(folder.absolute()), cwd=folder)
    return job_summary(report, folder.name, _began(folder)), report.run.job, report.run.is_part


def _began(folder: Path) -> str | None:
    """By the name of a run folder, else by its oldest part; None for a folder of another name."""
    parts = job_parts.parts(folder) if not _is_run(folder) else ()
    if parts:
        return job_summaries.iso(min(one.part.began for one in parts))
    try:
        return time.strftime(job_summaries.ISO, time.strptime(folder.name[:15], "%Y%m%d-%H%M%S"))
    except ValueError:
        return None
