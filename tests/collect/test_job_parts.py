"""A job that several autotunes measure: its id, its folder, its parts, and what is missing."""

from __future__ import annotations

import threading
import time
from pathlib import Path
from typing import Any

import pytest
from job_builders import rank, rank_row, run_folder

from autotune.collect import artefacts, job_parts
from autotune.collect.load_recordings import load
from autotune.errors import UsageError
from autotune.model.recording import missing_ranks


def left(root: Path, place: Path, name: str, *ranks: dict[str, Any], wall_s: float = 10.0) -> job_parts.PlacedPart:
    run = run_folder(root, name, *ranks)
    return job_parts.leave_part(run, place, load(run), wall_s)


@pytest.mark.parametrize(
    ("variables", "expected"),
    [
        ({}, ""),
        ({"SLURM_JOB_ID": "4711"}, "slurm-4711"),
        ({"SLURM_JOB_ID": "4711", "SLURM_STEP_ID": "2"}, "slurm-4711.2"),
        ({"PBS_JOBID": "12.head"}, "pbs-12.head"),
        ({"LSB_JOBID": "9", "LSB_JOBINDEX": "3"}, "lsf-9.3"),
        ({"PBS_JOBID": "../../etc"}, "pbs-.._.._etc"),
        ({"PMIX_NAMESPACE": "prterun-a-1@1"}, "pmix-prterun-a-1_1"),
    ],
)
def test_the_id_of_a_schedulers_job(variables: dict[str, str], expected: str) -> None:
    assert job_parts.scheduler_id(variables) == expected


@pytest.mark.parametrize(
    ("variables", "expected"),
    [
        ({}, True),
        ({"SLURM_JOB_ID": "7"}, True),
        ({"SLURM_PROCID": "0"}, True),
        ({"SLURM_PROCID": "3"}, False),
        ({"OMPI_COMM_WORLD_RANK": "1"}, False),
    ],
)
def test_the_first_task_of_a_launcher_speaks_for_all(variables: dict[str, str], expected: bool) -> None:
    assert job_parts.is_first_task(variables) is expected


def test_torchruns_id_is_taken_where_there_is_no_scheduler() -> None:
    own = [rank(0, 4, elastic_id="run/7")]
    assert job_parts.job_id(own, {}) == "torchrun-run_7"
    assert job_parts.job_id(own, {"SLURM_JOB_ID": "1"}) == "slurm-1"
    assert job_parts.job_id([rank(0, 4, elastic_id=None)], {}) == ""


def test_the_folder_is_the_named_one_else_that_of_the_id_else_none(tmp_path: Path) -> None:
    own = [rank(0, 4)]
    assert job_parts.folder(tmp_path, Path("/shared/x"), own, {}) == Path("/shared/x")
    assert job_parts.folder(tmp_path, None, own, {"SLURM_JOB_ID": "5"}) == tmp_path / ".autotune/jobs/slurm-5"
    assert job_parts.folder(tmp_path, None, own, {}) is None


def test_autotunes_of_the_ranks_of_one_launcher_share_the_machine() -> None:
    assert (
        job_parts.shared_by(None, {"SLURM_JOB_ID": "5", "SLURM_STEP_ID": "0", "SLURM_STEP_NUM_TASKS": "4"})
        == "slurm-5.0"
    )
    assert job_parts.shared_by(None, {"SLURM_JOB_ID": "5", "SLURM_STEP_NUM_TASKS": "1"}) == ""
    assert job_parts.shared_by(None, {"SLURM_JOB_ID": "5"}) == ""  # two terminals of one allocation
    assert job_parts.shared_by(Path("/shared/x"), {}) == "/shared/x"


def test_a_part_is_left_whole_and_read_by_report(tmp_path: Path) -> None:
    place = tmp_path / "job"
    one = left(tmp_path, place, "a", rank_row(0, 4), rank_row(1, 4))
    two = left(tmp_path, place, "b", rank_row(2, 4, host="node2"), rank_row(3, 4, host="node2"))
    assert [each.folder for each in job_parts.parts(place)] == [one.folder, two.folder]
    assert (two.part.host, two.part.world_size, two.part.ranks) == ("node2", 4, (2, 3))
    assert [each.process["rank"] for each in load(place)] == [0, 1, 2, 3]
    assert job_parts.manifest_file(place) == one.folder / artefacts.MANIFEST
    assert not [path for path in place.iterdir() if path.name.startswith(".")]


def test_the_autotune_of_rank_0_takes_the_parts_of_the_others_when_they_come(tmp_path: Path) -> None:
    place, said = tmp_path / "job", []
    own = left(tmp_path, place, "a", rank_row(0, 4), rank_row(1, 4))
    late = threading.Timer(0.3, left, (tmp_path, place, "b", rank_row(2, 4, host="n2"), rank_row(3, 4, host="n2")))
    late.start()
    began = time.monotonic()
    found = job_parts.gather(tmp_path / ".autotune/runs/a", own, 20.0, said.append)
    late.join()
    assert time.monotonic() - began < 10
    assert [one.part.ranks for one in found] == [(0, 1), (2, 3)]
    assert len(said) == 1 and "ranks 2 and 3" in said[0]
    assert [one.process["rank"] for one in load(tmp_path / ".autotune/runs/a")] == [0, 1, 2, 3]


def test_what_does_not_come_is_missing_and_waited_for_no_longer_than_asked(tmp_path: Path) -> None:
    place = tmp_path / "job"
    own = left(tmp_path, place, "a", rank_row(0, 4), rank_row(1, 4))
    assert job_parts.gather(tmp_path / ".autotune/runs/a", own, 0.0, lambda text: None) == (own,)
    assert missing_ranks(load(place)) == (2, 3)


def test_parts_of_an_earlier_start_in_the_same_allocation_are_not_of_this_one(tmp_path: Path, monkeypatch) -> None:
    place, now = tmp_path / "job", time.time()
    monkeypatch.setattr(job_parts.time, "time", lambda: now - 100)
    left(tmp_path, place, "a1", rank_row(0, 4), rank_row(1, 4))
    left(tmp_path, place, "b1", rank_row(2, 4, host="n2"), rank_row(3, 4, host="n2"))
    monkeypatch.setattr(job_parts.time, "time", lambda: now)
    second = left(tmp_path, place, "a2", rank_row(0, 4), rank_row(1, 4))
    assert job_parts.parts(place) == (second,)
    assert missing_ranks(load(place)) == (2, 3)
    fourth = left(tmp_path, place, "b2", rank_row(2, 4, host="n2"), rank_row(3, 4, host="n2"))
    assert job_parts.parts(place) == (second, fourth)


def test_a_rank_is_there_once(tmp_path: Path) -> None:
    place = tmp_path / "job"
    left(tmp_path, place, "a", rank_row(0, 1))
    again = left(tmp_path, place, "b", rank_row(0, 1), wall_s=9.0)
    assert job_parts.parts(place) == (again,)


def test_what_is_no_part_is_left_alone(tmp_path: Path) -> None:
    place = tmp_path / "job"
    (place / "part-x").mkdir(parents=True)
    (place / "part-y").mkdir()
    (place / "part-y" / job_parts.ABOUT).write_text('{"schema": 99}')
    assert job_parts.parts(place) == () and load(place) == ()


def test_a_folder_that_cannot_be_written_names_the_way_out(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(UsageError) as caught:
        left(tmp_path, tmp_path / "file" / "job", "a", rank_row(0, 4))
    assert "--job FOLDER" in str(caught.value)


def test_a_planted_link_is_not_followed(tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    place = tmp_path / ".autotune" / "jobs" / "slurm-1"
    place.parent.parent.mkdir()
    place.parent.symlink_to(tmp_path / "elsewhere")
    with pytest.raises(UsageError, match="it is a link"):
        job_parts.folder(tmp_path, None, [rank(0, 4)], {"SLURM_JOB_ID": "1"})


def test_a_named_folder_may_be_a_link_or_lie_below_one(tmp_path: Path) -> None:
    (tmp_path / "lustre").mkdir()
    (tmp_path / "scratch").symlink_to(tmp_path / "lustre")
    place = job_parts.folder(tmp_path, tmp_path / "scratch" / "job", [], {})
    assert place is not None
    one = left(tmp_path, place, "a", rank_row(0, 4))
    assert (tmp_path / "lustre" / "job" / one.folder.name).is_dir()


def test_of_a_part_its_own_files_alone_are_taken_as_copies(tmp_path: Path) -> None:
    place = tmp_path / "job"
    own = left(tmp_path, place, "a", rank_row(0, 2))
    other = left(tmp_path, place, "b", rank_row(1, 2, host="n2"))
    (tmp_path / "home").mkdir()
    (tmp_path / "home" / "key").write_text("secret")
    (other.folder / "x").symlink_to(tmp_path / "home")
    (other.folder / "recording-9.json").symlink_to(tmp_path / "home" / "key")
    (other.folder / "large").write_text("...")
    run = tmp_path / ".autotune/runs/a"
    job_parts.gather(run, own, 5.0, lambda text: None)
    taken = run / other.folder.name
    kept = {path.name for path in other.folder.iterdir()} - {"x", "large", "recording-9.json"}
    assert {path.name for path in taken.iterdir()} == kept
    assert all(path.stat().st_nlink == 1 for path in taken.iterdir())
    assert [one.process["rank"] for one in load(run)] == [0, 1]


def test_a_size_of_the_job_that_no_job_has_is_refused(tmp_path: Path) -> None:
    for size in (0, 10**10):
        with pytest.raises(ValueError, match="world_size"):
            rank(0, size)


@pytest.mark.parametrize(
    ("ranks", "text"),
    [
        ([3], "rank 3"),
        ([0, 2], "ranks 0 and 2"),
        ([2, 3], "ranks 2 and 3"),
        ([4, 5, 6, 7, 12], "ranks 4 to 7 and 12"),
        ([0, 2, 4], "ranks 0, 2 and 4"),
    ],
)
def test_ranks_in_words(ranks: list[int], text: str) -> None:
    assert job_parts.ranks_text(ranks) == text
