"""tune as a user runs it: interrupted, killed, resumed, and what it leaves."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from hashlib import sha256
from pathlib import Path

import psutil
import pytest
import shared_memory

from autotune.apply import apply

SCRIPT = """\
import argparse
import time

import torch
from torch.utils.data import DataLoader, Dataset


class Rows(Dataset):
    def __len__(self):
        return 100000

    def __getitem__(self, index):
        time.sleep(0.01)
        return torch.full((8,), float(index % 7))


parser = argparse.ArgumentParser()
parser.add_argument("--workers", type=int, default=0)
args = parser.parse_args()
torch.manual_seed(0)
torch.set_num_threads(1)
model = torch.nn.Linear(8, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
for batch in DataLoader(Rows(), batch_size=8, num_workers=args.workers):
    loss = model(batch).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""
FASTER = """\
import sys
from autotune.cli import main
from autotune.model.verified import AFTER, BEFORE, Estimate, LossComparison, LossVerdict, Memory
from autotune.model.verified import Schedule, Verdict, Verified
from autotune.tune import confirmation


def confirm(trials, best, left_s, announce):
    planned = Schedule((BEFORE, AFTER) * 4, 20, 3, 8.0)
    announce(planned)
    return Verified(
        "", trials.realisation(best).changes, Verdict.FASTER, "", Estimate(1.5, 1.4, 1.6, 0.01),
        (80.0, 53.0), False, LossComparison(LossVerdict.IDENTICAL, 20, ""), Memory("processes", None, None),
        planned, 8.0,
    )


confirmation.confirm = confirm
main()
"""
"""autotune, of whose `tune` the trials are real and the proof is not: on a busy machine that may say nothing."""

TUNE = (
    sys.executable,
    "-c",
    FASTER,
    "tune",
    "--no-lock",
    "--trials",
    "4",
    "--knobs",
    "workers",
    "--format",
    "json",
)
PATIENCE_S = 120.0


@pytest.fixture
def root(tmp_path) -> Path:
    (tmp_path / "pyproject.toml").write_text("")
    (tmp_path / "train.py").write_text(SCRIPT)
    return tmp_path


def start(root: Path, *options: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        (*TUNE, *options, "train.py"), cwd=root, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )


def until(process: subprocess.Popen[str], words: str) -> str:
    """What it said on stderr up to the line that has `words`."""
    said = ""
    for line in process.stderr:
        said += line
        if words in line:
            return said
    raise AssertionError(said)


def hashes(root: Path) -> dict[str, str]:
    files: list[Path] = []
    for folder, below, names in os.walk(root):
        # Runs come and go in there while this looks.
        below[:] = [name for name in below if name != ".autotune"]
        files += [Path(folder, name) for name in names]
    return {str(path): sha256(path.read_bytes()).hexdigest() for path in files}


def nothing_runs(root: Path) -> bool:
    """Whether every process of a trial is gone; the last one of a killed tuner ends by itself."""
    ends_at = time.monotonic() + PATIENCE_S
    while time.monotonic() < ends_at:
        if not any(_is_of(process, root) for process in psutil.process_iter()):
            return True
        time.sleep(0.5)
    return False


def _is_of(process: psutil.Process, root: Path) -> bool:
    try:
        environ = process.environ() if process.status() != psutil.STATUS_ZOMBIE else {}
    except psutil.Error:
        return False
    return str(root) in environ.get("AUTOTUNE_REQUEST", "")


@pytest.mark.train
@pytest.mark.long
def test_interrupted_killed_and_resumed_it_ends_with_a_patch_that_wins(root) -> None:
    before, shared = hashes(root), shared_memory.names()

    first = start(root)
    until(first, " ms per step")
    first.send_signal(signal.SIGINT)
    _, said = first.communicate(timeout=PATIENCE_S)
    assert first.returncode == 130
    assert nothing_runs(root)

    second = start(root, "--resume")
    assert "the study has 1 trial already" in until(second, " per step, ")
    second.kill()
    second.communicate()
    assert nothing_runs(root)

    third = start(root, "--resume")
    out, said = third.communicate(timeout=2 * PATIENCE_S)
    assert third.returncode == 0, said
    found = json.loads(out)
    assert found["trials"][0]["number"] == 0
    assert " trials already; best " in said
    assert (hashes(root), shared_memory.left(shared)) == (before, set())
    assert not list(root.glob(".autotune/runs/*/scratch*"))
    assert found["verified"] == {"speedup": 1.5, "low": 1.4, "high": 1.6, "losses": "identical"}
    assert found["changes"]["loader.num_workers"] > 0
    assert len(found["trials"]) <= 4
    planned = apply.plan(apply.ApplyOptions(), cwd=root)
    ((path, _, after),) = planned.files
    assert {change.setting: change.new for change in planned.chosen} == found["changes"]
    assert path.name == "train.py"
    assert f"default={found['changes']['loader.num_workers']}".encode() in after
