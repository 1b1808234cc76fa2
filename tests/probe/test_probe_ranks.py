from __future__ import annotations

import os
import subprocess
import sys

import pytest
import torch

from autotune.probe import ranks
from autotune.probe.ranks import Ranks

NAMES = ("RANK", "WORLD_SIZE", "MASTER_ADDR", *ranks.LOCAL_SIZES, *ranks.LOCAL_RANKS, *ranks.JOB_SIZES)
NAMES = (*NAMES, "SLURM_NODEID", "SLURM_STEP_TASKS_PER_NODE", "SLURM_LOCALID")


@pytest.fixture
def environ(monkeypatch):
    """environ(**variables): these are the only ones that launchers set."""

    def make(**variables):
        for name in NAMES:
            monkeypatch.delenv(name, raising=False)
        for name, value in variables.items():
            monkeypatch.setenv(name, value)

    make()
    return make


@pytest.fixture
def group(monkeypatch):
    """group(rank, size): torch.distributed says so; group(None) takes it down."""

    def make(rank, size=None):
        monkeypatch.setattr(torch.distributed, "is_initialized", lambda: rank is not None)
        monkeypatch.setattr(torch.distributed, "get_rank", lambda: rank)
        monkeypatch.setattr(torch.distributed, "get_world_size", lambda: size)

    return make


def told(one):
    row = one.row()
    return tuple(row[name] for name in ("rank", "local_rank", "world_size", "local_world_size"))


TORCHRUN = {"RANK": "5", "LOCAL_RANK": "1", "WORLD_SIZE": "8", "LOCAL_WORLD_SIZE": "4"}


@pytest.mark.parametrize(
    ("variables", "initialised", "expected"),
    [
        ({}, None, (0, 0, 1, 1)),
        (TORCHRUN, None, (5, 1, 8, 4)),
        (TORCHRUN, (5, 8), (5, 1, 8, 4)),
        (TORCHRUN, (1, 2), (1, 1, 2, None)),
        ({"LOCAL_RANK": "1", "LOCAL_SIZE": "2"}, (3, 4), (3, 1, 4, 2)),
        ({"OMPI_COMM_WORLD_LOCAL_RANK": "0", "OMPI_COMM_WORLD_LOCAL_SIZE": "2"}, (2, 4), (2, 0, 4, 2)),
        ({"MASTER_ADDR": "localhost"}, (1, 2), (1, 1, 2, 2)),
        ({"MASTER_ADDR": "node-7"}, (1, 2), (1, None, 2, None)),
        ({}, (1, 2), (1, None, 2, None)),
        ({}, (0, 1), (0, 0, 1, 1)),
        ({"RANK": "", "WORLD_SIZE": "many"}, None, (0, 0, 1, 1)),
    ],
)
def test_rank_local_rank_and_sizes(tmp_path, environ, group, variables, initialised, expected):
    environ(**variables)
    group(*(initialised or (None,)))
    assert told(Ranks(str(tmp_path))) == expected


def test_the_answer_outlives_the_process_group_but_not_a_fork(tmp_path, environ, group):
    one = Ranks(str(tmp_path))
    group(1, 2)
    assert one.world_size == 2
    group(None)
    assert (one.rank, one.world_size) == (1, 2)
    one.clear()
    assert (one.rank, one.world_size) == (0, 1)


def test_ranks_that_announced_themselves_here_are_counted_while_they_live(tmp_path, environ, group):
    group(0, 2)
    one = Ranks(str(tmp_path))
    one.look()
    prefix = f"rank-{os.uname().nodename}"
    gone = subprocess.Popen([sys.executable, "-c", ""])
    gone.wait()
    for name in (f"{prefix}-3-{os.getppid()}", f"{prefix}-2-{gone.pid}", f"rank-elsewhere-2-{os.getppid()}"):
        (tmp_path / name).touch()
    assert (one.local_world_size, one.num_leaving()) == (None, 1)
    (tmp_path / f"{prefix}-2-{os.getppid()}").touch()
    assert (one.local_world_size, one.local_rank, one.num_leaving()) == (2, 0, 2)


SRUN = {"SLURM_STEP_NUM_TASKS": "4", "SLURM_NODEID": "1", "SLURM_STEP_TASKS_PER_NODE": "2(x2)", "SLURM_LOCALID": "1"}


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({}, (3, 1, 4, 2)),
        ({"SLURM_STEP_TASKS_PER_NODE": "3,1", "SLURM_LOCALID": "0"}, (3, 0, 4, 1)),
        ({"SLURM_STEP_TASKS_PER_NODE": "many"}, (3, None, 4, None)),
        ({"SLURM_NODEID": "7"}, (3, None, 4, None)),
        ({"SLURM_STEP_NUM_TASKS": "2"}, (3, None, 4, None)),
    ],
)
def test_the_tasks_of_a_slurm_step(tmp_path, environ, group, changes, expected):
    environ(**{**SRUN, **changes})
    group(3, 4)
    assert told(Ranks(str(tmp_path))) == expected


TORCHRUN_OF_4 = {"RANK": "1", "WORLD_SIZE": "4", "LOCAL_RANK": "1", "LOCAL_WORLD_SIZE": "2"}
MPIRUN_OF_4 = {"OMPI_COMM_WORLD_SIZE": "4", "OMPI_COMM_WORLD_LOCAL_SIZE": "2", "OMPI_COMM_WORLD_LOCAL_RANK": "1"}


@pytest.mark.parametrize(
    ("variables", "inherited", "expected"),
    [
        (TORCHRUN_OF_4, (), 2),  # autotune -- torchrun, on each of two nodes
        ({**TORCHRUN_OF_4, **SRUN, "SLURM_STEP_NUM_TASKS": "2"}, tuple(SRUN), 2),  # srun autotune -- torchrun
        ({**TORCHRUN_OF_4, **SRUN}, tuple(SRUN), 2),  # the same, where a node has as many tasks as the job has ranks
        (TORCHRUN_OF_4, tuple(TORCHRUN_OF_4), 1),  # torchrun --no-python autotune
        (SRUN, tuple(SRUN), 1),  # srun autotune, once for each rank
        (MPIRUN_OF_4, tuple(MPIRUN_OF_4), 1),  # mpirun autotune
        (MPIRUN_OF_4, (), 4),  # autotune -- mpirun: the ranks of all machines have this autotune
        (SRUN, (), 4),  # autotune -- srun
    ],
)
def test_how_many_say_that_they_leave(tmp_path, environ, group, variables, inherited, expected):
    environ(**variables)
    group(1, 4)
    assert Ranks(str(tmp_path), inherited).num_leaving() == expected


def test_the_host_and_torchruns_id_are_recorded(tmp_path, environ, group, monkeypatch):
    environ()
    for name, expected in (("none", None), ("", None), ("a7", "a7")):
        monkeypatch.setenv("TORCHELASTIC_RUN_ID", name)
        row = Ranks(str(tmp_path)).row()
        assert (row["host"], row["elastic_id"]) == (os.uname().nodename, expected)
