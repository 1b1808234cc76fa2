"""From folders to the lines of jobs: each job once, what is stored as it was, what is not from its Recordings."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from job_builders import STEP_MS, job, rank_row, run_folder
from msgspec import to_builtins

from autotune.collect import job_parts
from autotune.collect.load_recordings import load
from autotune.diagnose import job_summaries
from autotune.errors import UsageError
from autotune.runs.runs import runs


def made(root: Path, name: str, *rows: dict[str, Any], stored: job_summaries.StoredSummary | None = None) -> Path:
    folder = run_folder(root, name, *rows)
    if stored is not None:
        (folder / job_summaries.FILE).write_text(json.dumps({"schema": 1, **to_builtins(stored)}))
    return folder


def test_the_line_of_a_run_is_the_stored_one_with_its_place_of_now(tmp_path: Path) -> None:
    stored = job_summaries.StoredSummary(job(run="old", folder="/where/it/was", step_ms=77.0))
    folder = made(tmp_path / "a", "20261101-120000-aaaaaa", rank_row(0), stored=stored)
    (line,) = runs([tmp_path]).jobs
    assert (line.run, line.folder, line.step_ms) == (folder.name, str(folder), 77.0)


def test_the_line_of_an_older_run_is_made_from_its_recordings(tmp_path: Path) -> None:
    made(tmp_path / "a", "20261101-120000-aaaaaa", rank_row(0))
    (line,) = runs([tmp_path]).jobs
    assert (line.began, line.ranks, line.hosts) == ("2026-11-01T12:00:00Z", 1, ("node1",))
    assert line.step_ms == STEP_MS
    assert line.hours_lost is None and line.planned_steps is None  # a length that is not known is not 0


def test_the_newest_comes_first_and_each_once(tmp_path: Path) -> None:
    for name, began in (("a", "2026-11-01T00:00:00Z"), ("b", "2026-11-03T00:00:00Z"), ("c", "2026-11-02T00:00:00Z")):
        made(tmp_path / name, f"run-{name}", rank_row(0), stored=job_summaries.StoredSummary(job(began=began)))
    (tmp_path / "link").symlink_to(tmp_path / "a")
    found = runs([tmp_path, tmp_path / "b", tmp_path / "b" / ".autotune" / "runs" / "run-b"])
    assert [line.run for line in found.jobs] == ["run-b", "run-c", "run-a"]


def test_a_job_of_several_nodes_has_one_line(tmp_path: Path) -> None:
    """Three folders: the run that joined the parts, the run of the other node, and the folder of the parts."""
    place = tmp_path / ".autotune" / "jobs" / "slurm-7"
    own = [rank_row(0, 2), rank_row(1, 2, "node2")]
    first = made(tmp_path, "first", own[0], stored=job_summaries.StoredSummary(job(ranks=2), str(place)))
    second = made(
        tmp_path, "second", own[1], stored=job_summaries.StoredSummary(job(ranks=2), str(place), is_part=True)
    )
    job_parts.leave_part(first, place, load(first), 9.0)
    job_parts.leave_part(second, place, load(second), 9.0)
    assert [line.run for line in runs([tmp_path]).jobs] == ["first"]


def test_a_job_whose_parts_nobody_joined_is_told_by_its_folder(tmp_path: Path) -> None:
    place = tmp_path / ".autotune" / "jobs" / "slurm-7"
    part = [rank_row(1, 2, "node2")]
    run = made(tmp_path, "second", *part, stored=job_summaries.StoredSummary(job(), str(place), is_part=True))
    job_parts.leave_part(run, place, load(run), 9.0)
    (line,) = runs([tmp_path]).jobs
    assert (line.run, line.ranks, line.missing_ranks, line.hosts) == ("slurm-7", 2, (0,), ("node2",))
    assert line.began is not None


def test_what_cannot_be_read_is_named_and_the_rest_is_there(tmp_path: Path) -> None:
    made(tmp_path / "a", "good", rank_row(0))
    bad = made(tmp_path / "a", "bad")
    (bad / "recording-1.json").write_text("{")
    found = runs([tmp_path])
    assert [line.run for line in found.jobs] == ["good"]
    ((folder, why),) = found.unreadable
    assert folder == str(bad) and "not JSON" in why


def test_a_stored_line_of_another_version_is_made_again(tmp_path: Path) -> None:
    folder = made(tmp_path, "20261101-120000-aaaaaa", rank_row(0))
    (folder / job_summaries.FILE).write_text('{"schema": 2, "summary": {}}')
    (line,) = runs([tmp_path]).jobs
    assert line.step_ms == STEP_MS


def test_folders_of_libraries_and_hidden_ones_are_not_looked_into(tmp_path: Path) -> None:
    for name in ("node_modules", ".cache"):
        made(tmp_path / name / "x", "run", rank_row(0))
    with pytest.raises(UsageError, match="no diagnosed job"):
        runs([tmp_path])


def test_a_folder_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="no such folder"):
        runs([tmp_path / "x"])
