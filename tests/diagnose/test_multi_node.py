"""A measurement of some ranks of a job joins with those of the others; what is missing is never told as fine."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import threading
from pathlib import Path

import pytest
from job_builders import rank, rank_row, run_folder

from autotune.collect.load_recordings import load
from autotune.diagnose import multi_node
from autotune.diagnose.diagnose import load as load_report

SLURM = {"SLURM_JOB_ID": "7", "SLURM_STEP_ID": "0"}


def joined(root: Path, name: str, *rows, environ=SLURM, named=None, wait_s=0.0) -> multi_node.JoinedJob:
    run = run_folder(root, name, *rows)
    return multi_node.join(run, load(run), 10.0, root=root, named=named, environ=environ, wait_s=wait_s)


def test_a_job_that_is_all_here_leaves_no_part(tmp_path: Path) -> None:
    found = joined(tmp_path, "a", rank_row(0, 2), rank_row(1, 2))
    assert (found.folder, found.is_part, found.note) == ("", False, "")
    assert not (tmp_path / ".autotune" / "jobs").exists()


def test_all_of_it_is_left_where_a_folder_is_named(tmp_path: Path) -> None:
    found = joined(tmp_path, "a", rank_row(0, 1), named=tmp_path / "shared")
    assert found.folder == str(tmp_path / "shared") and not found.is_part
    assert len(load(tmp_path / "shared")) == 1


def test_the_other_ranks_come_from_their_autotunes(tmp_path: Path) -> None:
    other = threading.Timer(0.3, joined, (tmp_path, "b", rank_row(1, 2, "node2")))
    other.start()
    found = joined(tmp_path, "a", rank_row(0, 2), wait_s=20.0)
    other.join()
    assert [one.process["host"] for one in found.recordings] == ["node1", "node2"]
    assert (found.folder, found.is_part) == (str(tmp_path / ".autotune/jobs/slurm-7.0"), False)
    report = load_report(found.folder, cwd=tmp_path)
    assert (report.missing_ranks, report.hosts) == ((), ("node1", "node2"))
    assert load_report(str(tmp_path / ".autotune/runs/a"), cwd=tmp_path).run.num_processes == 2


def test_the_autotune_without_rank_0_leaves_its_part_and_waits_for_nobody(tmp_path: Path) -> None:
    found = joined(tmp_path, "b", rank_row(1, 2, "node2"), wait_s=1e9)
    assert found.is_part and [one.process["rank"] for one in found.recordings] == [1]
    report = load_report(found.folder, cwd=tmp_path)
    assert report.missing_ranks == (0,)
    assert any(note.startswith("rank 0 of 2 is missing here") for note in report.run.notes)


def test_where_ranks_are_missing_the_rules_on_ranks_did_not_pass(tmp_path: Path) -> None:
    found = joined(tmp_path, "a", rank_row(0, 3), rank_row(1, 3))
    report = load_report(found.folder, cwd=tmp_path)
    assert report.missing_ranks == (2,)
    passed = {one.rule.id for one in report.evaluation.passed}
    skipped = {one.rule.id for one in report.evaluation.skipped}
    assert {"DD006", "DD017"} & passed == set() and {"DD006", "DD017"} <= skipped


def test_without_a_name_it_says_how_to_get_one_report(tmp_path: Path) -> None:
    found = joined(tmp_path, "a", rank_row(0, 2), environ={})
    assert found.folder == "" and "--job FOLDER" in found.note and "rank 1 " in found.note


def test_a_folder_that_cannot_be_written_costs_no_measurement(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    found = joined(tmp_path, "a", rank_row(0, 2), named=tmp_path / "file" / "x")
    assert len(found.recordings) == 1 and "could not be joined" in found.note


def test_all_ranks_need_no_note() -> None:
    assert multi_node.missing_note([rank(0, 2), rank(1, 2)]) == ""


TRAIN = """
import os, sys, time
import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

def slow():
    time.sleep(0.05)

dist.init_process_group("gloo")
model = DistributedDataParallel(torch.nn.Linear(8, 8))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for _ in range(300):
    optimizer.zero_grad()
    model(torch.ones(2, 8)).sum().backward()
    optimizer.step()
    if dist.get_rank() == 1:
        slow()
"""


@pytest.mark.train
def test_two_autotunes_one_for_each_rank_give_one_report(tmp_path: Path) -> None:
    """As srun or mpirun start them on one machine: they share its lock, and the one of rank 0 reports."""
    (tmp_path / "pyproject.toml").touch()
    (tmp_path / "train.py").write_text(TRAIN)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = str(free.getsockname()[1])
    command = [sys.executable, "-m", "autotune", "diagnose", "--quiet", "--no-what-ifs", "--format", "json", "train.py"]
    job = {"SLURM_JOB_ID": "7", "SLURM_STEP_ID": "0", "SLURM_STEP_NUM_TASKS": "2", "GLOO_SOCKET_IFNAME": "lo"}
    environ = {**os.environ, **job, "WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port}
    started = [
        subprocess.Popen(
            command, cwd=tmp_path, env={**environ, "RANK": str(number)}, stdout=subprocess.PIPE, stderr=subprocess.PIPE
        )
        for number in range(2)
    ]
    outputs = [one.communicate(timeout=200) for one in started]
    assert [one.returncode for one in started] == [0, 0], outputs
    document = json.loads(outputs[0][0])
    assert outputs[1][0] == b"" and b"rank 1 of 2 recorded" in outputs[1][1]
    assert (len(document["ranks"]), document["missing_ranks"]) == (2, [])
    assert document["facts"]["ranks.slowest"] == 1 and "slow (train.py:" in document["facts"]["ranks.slowest_line"]
    assert document["run"]["job"].endswith(".autotune/jobs/slurm-7.0")
