"""Scripts whose trials go wrong in the way that the number of workers says."""

from __future__ import annotations

from functools import cache
from pathlib import Path

from autotune.engine.evidence import join, observed_over
from autotune.model.evidence import RUN, Fact, Location, Setting
from autotune.scan.command import scan_command
from autotune.tune.realisation import DiagnosedScript

TRAIN = "loader#train"

MISBEHAVING = """\
import argparse
import os
import re
import resource
import signal
import subprocess
import sys
import time

parser = argparse.ArgumentParser()
parser.add_argument("--workers", type=int, default=0)
args = parser.parse_args()
mode = int(re.search(r"--workers.*default=(\\d)", open(__file__).read())[1])
if mode == 9:
    import no_such_module

import torch
from torch.utils.data import DataLoader, Dataset


class Rows(Dataset):
    def __len__(self):
        return 10000

    def __getitem__(self, index):
        if mode == 5 and index == 40:
            os.kill(os.getpid(), signal.SIGKILL)
        return torch.ones(4)


def misbehave(step):
    if mode == 3:
        resource.setrlimit(resource.RLIMIT_DATA, (2 << 30, 2 << 30))
        torch.ones(1 << 30)
    if mode == 4 and step == 3:
        raise ValueError("no more rows")
    if mode == 6 and step == 3:
        subprocess.Popen(["sleep", "1234"])
        time.sleep(1000)
    if mode == 8 and step == 3:
        open("/dev/full", "w", buffering=1).write("\\n")
    if mode == 1:
        time.sleep(1.0)


if mode == 2:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    time.sleep(1000)
model = torch.nn.Linear(4, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
if mode == 7:
    native = DataLoader.__init__
    DataLoader.__init__ = lambda self, *given, **named: native(self, *given, **{**named, "num_workers": 0})
loader = DataLoader(Rows(), batch_size=4, num_workers=args.workers)
for step, batch in enumerate(loader):
    misbehave(step)
    loss = model(batch).mean()
    loss.backward()
    optimizer.step()
    time.sleep(0.002)
"""

LOADER_LINE = 1 + next(
    number for number, line in enumerate(MISBEHAVING.splitlines()) if line.startswith("loader = DataLoader")
)


def as_diagnosed(path: Path, line: int, workers: int = 0) -> DiagnosedScript:
    """The script at `path` as a diagnosis knows it whose loader is made on `line`."""
    words = (path.name,)
    bundle = scan_command(words, cwd=path.parent, root=path.parent, versions={})
    assert bundle is not None
    at = Location(str(path), line, "DataLoader")
    seen = Setting("loader.num_workers", TRAIN, workers, "observed", at, spelling="num_workers")
    static = join(bundle.facts, bundle.settings)
    evidence = observed_over(static, join([Fact("run.framework", RUN, "raw")], [seen]))
    return DiagnosedScript(words, evidence, bundle, {}, cache(lambda name: Path(name).read_bytes()))
