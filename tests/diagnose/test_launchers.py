"""Two gloo processes under launchers that this machine may have: one report on both ranks, the late one named."""

from __future__ import annotations

import json
import os
import shutil
import socket
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.train
needs_mpirun = pytest.mark.skipif(shutil.which("mpirun") is None, reason="mpirun is not installed")

DIAGNOSE = (sys.executable, "-m", "autotune", "diagnose", "--quiet", "--no-what-ifs", "--format", "json")

LOOP = """
def slow():
    zlib.decompress(PACKED)

for (batch,) in loader:
    {backward}
    optimizer.step()
    optimizer.zero_grad()
    if torch.distributed.get_rank() == 1:
        slow()
"""

HEAD = """
import os, zlib, torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.set_num_threads(1)
PACKED = zlib.compress(bytes(64 << 20))
loader = DataLoader(TensorDataset(torch.randn(4096, 64)), batch_size=8)
model = nn.Linear(64, 64)
optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
"""

ACCELERATE = (
    HEAD
    + """
from accelerate import Accelerator

accelerator = Accelerator(cpu=True)
model, optimizer, loader = accelerator.prepare(model, optimizer, loader)
"""
    + LOOP.format(backward="accelerator.backward(model(batch).square().mean())")
)

MPI = (
    HEAD
    + """
rank, size = int(os.environ["OMPI_COMM_WORLD_RANK"]), int(os.environ["OMPI_COMM_WORLD_SIZE"])
torch.distributed.init_process_group("gloo", init_method=os.environ["MEET"], rank=rank, world_size=size)
model = nn.parallel.DistributedDataParallel(model)
"""
    + LOOP.format(backward="model(batch).square().mean().backward()")
)


def diagnosed(folder: Path, script: str, command: list[str]) -> subprocess.CompletedProcess[str]:
    (folder / "pyproject.toml").touch()
    (folder / "train.py").write_text(script)
    allowed = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}
    with socket.socket() as free:  # a file to meet at would be in the scratch of each autotune
        free.bind(("127.0.0.1", 0))
        meet = f"tcp://127.0.0.1:{free.getsockname()[1]}"
    environ = {**os.environ, **allowed, "GLOO_SOCKET_IFNAME": "lo", "MEET": meet}
    ended = subprocess.run(command, cwd=folder, env=environ, capture_output=True, text=True, timeout=200, check=False)
    assert ended.returncode == 0, ended.stderr
    return ended


def is_of_both_ranks(ended: subprocess.CompletedProcess[str]) -> bool:
    document = json.loads(ended.stdout)
    assert (len(document["ranks"]), document["missing_ranks"]) == (2, [])
    return document["facts"]["ranks.slowest"] == 1


def test_accelerate_launch(tmp_path: Path) -> None:
    """Without GPUs --multi_gpu starts several processes all the same; with --cpu accelerate starts one."""
    pytest.importorskip("accelerate")
    launch = ["-m", "accelerate.commands.launch", "--multi_gpu", "--num_processes", "2", "train.py"]
    assert is_of_both_ranks(diagnosed(tmp_path, ACCELERATE, [*DIAGNOSE, "--", sys.executable, *launch]))


@needs_mpirun
def test_an_autotune_around_mpirun(tmp_path: Path) -> None:
    launch = ["mpirun", "-np", "2", "--oversubscribe", sys.executable, "train.py"]
    assert is_of_both_ranks(diagnosed(tmp_path, MPI, [*DIAGNOSE, "--", *launch]))


@needs_mpirun
def test_an_autotune_for_each_rank_of_mpirun(tmp_path: Path) -> None:
    """mpirun binds each of two tasks to CPUs of its own where there are two."""
    ended = diagnosed(tmp_path, MPI, ["mpirun", "-np", "2", "--oversubscribe", *DIAGNOSE, "train.py"])
    assert is_of_both_ranks(ended) and "rank 1 of 2 recorded" in ended.stderr
    assert json.loads(ended.stdout)["run"]["job"].partition("/jobs/")[2].startswith("pmix-")
    assert json.loads(ended.stdout)["machine"]["cpu_quota"] >= min(2, len(os.sched_getaffinity(0)))
