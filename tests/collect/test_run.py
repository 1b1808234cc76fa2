"""Measurements that do not go as they should, and what is left behind: no process, no scratch folder."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field

import psutil
import pytest

from autotune.api import outcome
from autotune.collect.artefacts import new_run
from autotune.collect.request import Request
from autotune.collect.run import collect
from autotune.collect.command import Command
from autotune.errors import ScriptError

pytestmark = pytest.mark.train

LOOP = """
    import sys, time
    import torch

    class Model(torch.nn.Linear):
        calls = 0

        def forward(self, x):
            self.calls += 1
            during(self.calls)
            return super().forward(x)

    def during(call):
        {during}

    def main(steps={steps}):
        {before}
        model = Model(2, 1)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        for step in range(steps):
            model(torch.ones(4, 2)).sum().backward()
            optimizer.step()
        {after}

    main()
"""


def script(during="pass", before="pass", after="pass", steps=10**6):
    return LOOP.format(during=during, before=before, after=after, steps=steps)


@dataclass(frozen=True)
class Case:
    """A script, how it is started, and what is asked."""

    text: str
    words: tuple[str, ...] = ("train.py",)
    request: dict = field(default_factory=dict)
    files: dict = field(default_factory=dict)


NO_MEMORY = "raise RuntimeError(\"[enforce fail] DefaultCPUAllocator: can't allocate memory: 9 bytes\")"
CASES = {
    "raises before": Case(script(before="raise ValueError('private text')")),
    "raises in forward": Case(script(during="assert call < 6"), request={"steps": 50}),
    "asks": Case(script(before="input('token? ')")),
    "no memory": Case(script(during=NO_MEMORY)),
    "no step": Case(script(steps=0, before="Model(2, 1)(torch.ones(1, 2))")),
    "no torch": Case("print('hello')"),
    "exits": Case("import torch, sys; sys.exit(7)"),
    "ends early": Case(script(steps=5), request={"steps": 50}),
    "hangs before": Case("import torch, time\ndef load_data():\n    time.sleep(60)\nload_data()", request={"startup_limit_s": 4.0}),
    "hangs in step 7": Case(
        script(during="time.sleep(60 if call == 7 else 0)"), request={"steps": 50, "time_limit_s": 0.5}
    ),
    "isolated": Case(script(), ("python", "-I", "train.py", "--lr", "1")),
    "own PYTHONPATH": Case(script(), ("bash", "-c", "PYTHONPATH=. python train.py")),
    "env -i": Case(script(), ("env", "-i", f"OMP_NUM_THREADS=1", sys.executable, "train.py")),
    "three stages": Case(
        script(),
        ("run.sh",),
        files={"run.sh": "set -e\npython a.py\npython train.py\npython c.py\n", "a.py": "print('A')", "c.py": "print('C')"},
    ),
    "python -m": Case(script(), ("python", "-m", "train")),
    "keeps going": Case(
        script(steps=200, after="torch.save(model.state_dict(), 'final.pt'); print('patched', [type(f).__name__ for f in ()])"),
        request={"keep_going": True},
    ),
    "torchrun": Case(
        """
        import os, torch
        import torch.distributed as dist
        dist.init_process_group("gloo")
        model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(2, 1))
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        while True:
            model(torch.ones(4, 2)).sum().backward()
            optimizer.step()
            optimizer.zero_grad()
        """,
        ("torchrun", "--nproc-per-node", "2", "train.py"),
    ),
}  # fmt: skip

NATIVE_AFTER = """
        names = [torch.nn.Module.__call__, torch.autograd.backward, torch.optim.Optimizer.__init__, torch.save,
                 torch.optim.SGD.step, torch.utils.data.DataLoader.__init__]
        files = {name.__code__.co_filename for name in names}
        print("HOOKED", sorted(file for file in files if "autotune" in file))
"""


@pytest.fixture(scope="module")
def results(place_in, tmp_path_factory):
    """{name: (place, measurement)} of all cases; two run at a time, because most of a start is waiting."""
    root = tmp_path_factory.mktemp("cases")

    def run(name):
        case, place = CASES[name], place_in(root / name.replace(" ", "-"))
        place.write("train.py", case.text)
        for file, text in case.files.items():
            place.write(file, text)
        return place, place.measure(*case.words, **case.request)

    with ThreadPoolExecutor(3) as pool:
        return dict(zip(CASES, pool.map(run, CASES), strict=True))
