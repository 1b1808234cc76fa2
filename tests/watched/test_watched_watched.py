"""From state files to what a run is doing now: which folders are read, and what is said of a process that is silent."""

from __future__ import annotations

import json
import os

import pytest

from autotune import machine
from autotune.collect import artefacts, job_parts
from autotune.errors import UsageError
from autotune.probe.watch import folder as probe_folder
from autotune.report import render
from autotune.watched.watched import watched

NOW = 1_800_000_000.0
DRIFT = {
    "what": "step_time",
    "since_step": 310,
    "said_at_step": 380,
    "is_steady": False,
    "is_alike": False,
    "queued_ms": None,
    "first": 139.0,
    "now": 182.0,
    "phases": [{"phase": "data_wait", "first_ms": 2.1, "now_ms": 44.0}],
    "place": None,
    "text": "a step takes 1.31 times as long as at step 50: data wait rose from 2.10 ms to 44.0 ms",
}
WINDOW = {
    "step": 50,
    "steps": 20,
    "reason": "planned",
    "step_ms": 140.0,
    "phases_ms": {"forward": 138.6, "data_wait": 1.4},
    "places": {},
    "queued_ms": None,
    "memory_bytes": 2**31,
}


def state(**fields):
    return {
        "schema": 1,
        "state": "running",
        "error": None,
        "pid": os.getpid(),
        "process_start": 0.0,
        "host": "other [1]",
        "script": "train.py",
        "began_at": NOW - 3600,
        "rank": 0,
        "world_size": 1,
        "seen_at": NOW - 4,
        "stepped_at": NOW - 5,
        "steps": 1240,
        "step_ms": 139.0,
        "first_step_ms": 139.0,
        "memory_bytes": 2**31,
        "first_memory_bytes": 2**31,
        "is_measuring": False,
        "windows": [WINDOW],
        "drift": [],
        "failure": None,
        **fields,
    }


@pytest.fixture
def put(tmp_path):
    """put(run, **fields): a state in a run folder of the project tmp_path."""

    def make(run, **fields):
        folder = tmp_path / ".autotune" / "watch" / run
        folder.mkdir(parents=True, exist_ok=True)
        row = state(**fields)
        (folder / f"state-{row['host'].split()[0]}-{row['rank']}{row['pid']}.json").write_text(json.dumps(row))
        return folder

    return make


def lives(folder):
    return [row.life for row in watched(folder, cwd=folder, now=NOW).rows]


def test_a_process_of_another_machine_is_stale_after_two_minutes_and_one_of_this_machine_is_asked(put, tmp_path):
    put("1", began_at=NOW - 400)
    put("2", began_at=NOW - 300, seen_at=NOW - 130)
    put("3", began_at=NOW - 200, **machine.identity(), seen_at=NOW - 130)
    put("4", began_at=NOW - 100, **{**machine.identity(), "process_start": 1000.0})
    put("5", began_at=NOW - 50, state="raised", error="KeyError")
    unknown = {**machine.identity(), "process_start": None}
    put("6", began_at=NOW - 40, **unknown)
    put("7", began_at=NOW - 30, **unknown, seen_at=NOW - 130)
    assert lives(tmp_path) == ["running", "stale", "running", "killed", "raised", "running", "stale"]
    text = render("watch", watched(tmp_path, cwd=tmp_path, now=NOW))
    assert "no sign from other for 2 min 10 s" in text
    assert "killed: process" in text
    assert "ended by KeyError" in text


def test_ranks_of_a_run_stand_together_and_what_drifted_below_its_process(put, tmp_path):
    put("job-7", rank=1, world_size=2, drift=[DRIFT], step_ms=182.0)
    put("job-7", rank=0, world_size=2, stepped_at=NOW - 300)
    text = render("watch", watched(tmp_path / ".autotune" / "watch" / "job-7", cwd=tmp_path, now=NOW))
    lines = text.splitlines()
    assert lines[0].startswith("train.py  ")
    assert lines[1].startswith("rank 0: running, no step for 5 min 0 s, step 1,240")
    rest = " ".join(" ".join(lines[2:]).split())
    assert rest.startswith("139 ms per step, 139 ms at step 50, data wait 1.0 % one window after step 50, memory")
    assert "rank 1: running, step 1,240 182 ms per step, 139 ms at step 50" in rest
    assert "data wait rose from 2.10 ms to 44.0 ms (said after step 380)" in rest


def test_of_runs_that_are_over_the_newest_ten_are_shown_and_those_that_run_always(put, tmp_path):
    put("00", began_at=NOW - 9999)
    for number in range(1, 14):
        put(f"{number:02}", began_at=NOW - 1000 + number, state="ended")
    found = watched(None, cwd=tmp_path, now=NOW)
    assert [row.folder.name for row in found.rows] == ["00", *(f"{number:02}" for number in range(4, 14))]
    assert found.left_out == 3
    assert "3 runs that ended earlier are not shown" in render("watch", found)
    document = json.loads(render("watch", found, "json"))
    assert (document["left_out"], document["processes"][0]["state"]["steps"]) == (3, 1240)


def test_a_file_that_is_no_state_is_named_and_the_others_are_read(put, tmp_path):
    folder = put("1")
    (folder / "state-x-1.json").write_text('{"schema": 1}')
    (folder / "state-x-2.json").symlink_to("/dev/zero")
    found = watched(None, cwd=tmp_path, now=NOW)
    assert [row.life for row in found.rows] == ["running"]
    assert sorted(path.rpartition("/")[2] for path in found.unreadable) == ["state-x-1.json", "state-x-2.json"]
    assert "Object missing required field" in render("watch", found)


def test_where_nothing_was_watched_it_says_how_to_begin(tmp_path):
    with pytest.raises(UsageError, match=r"AUTOTUNE_WATCH=1 python train\.py"):
        watched(None, cwd=tmp_path)


def test_the_probe_writes_where_the_verb_looks(tmp_path, monkeypatch):
    """Two functions find the project, because the probe imports nothing of the package."""
    project = tmp_path / "project"
    (project / "src" / "deep").mkdir(parents=True)
    (project / "pyproject.toml").touch()
    open_to_all = project / "open"
    open_to_all.mkdir()
    open_to_all.chmod(0o777)
    (open_to_all / "inner").mkdir()
    for place in (project, project / "src", project / "src" / "deep", open_to_all, open_to_all / "inner", tmp_path):
        assert probe_folder.root(str(place)) == str(artefacts.project_root(place))
    made = probe_folder.new(str(project / "src"), 1)
    probe_folder.make(made)
    assert made.startswith(str(project / ".autotune" / "watch"))
    assert probe_folder.new(str(project), 2) != made


def test_a_link_in_a_cloned_project_does_not_choose_where_states_are_written(tmp_path):
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / ".autotune").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(OSError, match="it is a link"):
        probe_folder.make(probe_folder.new(str(tmp_path), 1))
    assert list((tmp_path / "elsewhere").iterdir()) == []


def test_where_no_loader_was_seen_nothing_is_said_of_its_wait(put, tmp_path):
    put("1", windows=[{**WINDOW, "phases_ms": {"forward": 140.0}}])
    text = render("watch", watched(tmp_path, cwd=tmp_path, now=NOW))
    assert "139 ms at step 50" in text
    assert "data wait" not in text


def test_processes_of_a_schedulers_job_share_a_folder():
    of_step = {"SLURM_JOB_ID": "12", "SLURM_STEP_ID": "0"}
    assert probe_folder.name(1, of_step) == probe_folder.name(1, {**of_step, "SLURM_PROCID": "3"}) == "job-12-0"
    assert probe_folder.name(1, {"PBS_JOBID": "7.host/x"}) == "job-7.host-x"
    assert str(os.getpid()) in probe_folder.name(1, {})
    assert probe_folder.name(1, {}) != probe_folder.name(1, {})  # the first processes of two containers, in one second
    # Each command that is typed under salloc is a run of its own; an mpirun there has its own id.
    assert str(os.getpid()) in probe_folder.name(1, {"SLURM_JOB_ID": "12"})
    assert probe_folder.name(1, {"SLURM_JOB_ID": "12", "PMIX_NAMESPACE": "prterun-1"}) == "job-prterun-1"
    elements = [probe_folder.name(1, {"LSB_JOBID": "9", "LSB_JOBINDEX": each}) for each in "12"]
    assert elements == ["job-9-1", "job-9-2"]
    assert tuple(job_parts.SCHEDULERS.values()) == probe_folder.JOB_IDS
