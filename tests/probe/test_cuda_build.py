"""A CUDA build of torch without a GPU takes paths that one for CPUs never takes: `make test-cuda`."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from autotune.probe import describe, device_clock
from autotune.probe.hooks import calls
from autotune.probe.what_ifs.kernels import KernelProfile

pytestmark = pytest.mark.skipif(torch.version.cuda is None, reason="this torch is built without CUDA")

ROOT = Path(__file__).resolve().parents[2]


def test_host_reads_and_copies_are_hooked_and_given_back(attach):
    natives = {name: getattr(torch.Tensor, name) for name in (*calls.READS, "to", "cuda")}
    session = attach(steps=4, warmup=1)
    assert all(getattr(torch.Tensor, name) is not native for name, native in natives.items())
    assert torch.tensor(3.5).item() == 3.5
    assert torch.ones(2).to(torch.float64).tolist() == [1.0, 1.0]
    assert not session.recorder.events, "tensors of the host wait for nobody"
    session.detach()
    assert all(getattr(torch.Tensor, name) is native for name, native in natives.items())


def test_a_driver_that_is_not_there_ends_no_script():
    assert device_clock.drained(7, on_cuda=True) == 7
    marks = device_clock.DeviceClock()
    marks.mark(5)
    assert marks.read() == []
    profile = KernelProfile(1, 0)
    for _ in range(2):
        torch.ones(4) @ torch.ones(4)
        profile.on_step()
    assert profile.table() is None
    assert describe.torch_state()["matmul_precision"] == "highest"


@pytest.mark.parametrize("script", ["tokenise_in_getitem.py"])
def test_a_diagnosis_ends_well_and_names_the_build(script, tmp_path):
    words = [sys.executable, "-m", "autotune", "diagnose", "--python", sys.executable, "--format", "json"]
    ended = subprocess.run(
        [*words, "--steps", "20", str(ROOT / "fixtures" / "scripts" / script), "--steps", "60"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert ended.returncode == 0, ended.stderr
    document = json.loads(ended.stdout)
    assert document["outcome"] == "completed"
    assert document["facts"]["device.type"] == "cpu"
    assert document["devices"] == []
    assert document["facts"]["software.torch_cuda"]
