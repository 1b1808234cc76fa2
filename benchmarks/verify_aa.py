"""Whether `autotune verify` can be believed: runs of identical files, and of a script that is 10 % slower.

Each run is the whole verb, ten starts or so, on a small script whose step takes a known time (compute on one thread).
Identical files must have no winner; a planted slowdown must be called slower. What the machine did meanwhile decides
how often it cannot tell: the load at the start of each run is printed beside it. `--load N` keeps N CPUs busy.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import multiprocessing
import os
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import measuring

SCRIPT = """\
import time

import torch

torch.manual_seed(0)
torch.set_num_threads(1)
model = torch.nn.Sequential(torch.nn.Linear(256, 512), torch.nn.ReLU(), torch.nn.Linear(512, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
data = torch.randn(256, 256)


def work(seconds):
    end = time.thread_time() + seconds
    while time.thread_time() < end:
        torch.mm(data, data)


while True:
    loss = model(data).pow(2).mean()
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
    work({seconds})
"""
STEP_S = 0.02
CASES = {"identical": 1.0, "10 % slower": 1.1}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=20, help="verify runs of each case")
    parser.add_argument("--budget", default="90s", help="of each run")
    parser.add_argument("--load", type=int, default=0, help="CPUs that are kept busy beside it")
    parser.add_argument("--format", choices=("text", "json"), default="text")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as name, busy(given.load):
        folder = Path(name)
        (folder / "train.py").write_text(SCRIPT.format(seconds=STEP_S))
        found = {
            case: [once(folder, factor, given.budget) for _ in range(given.runs)] for case, factor in CASES.items()
        }
    measuring.show({"load": given.load, "runs": found}, text(found), given.format == "json")


def once(folder: Path, factor: float, budget: str) -> measuring.Json:
    """One verify run: {"verdict", "speedup", "low", "high", "spread", "why", "seconds", "load"}."""
    (folder / "other.py").write_text(SCRIPT.format(seconds=STEP_S * factor))
    path = os.pathsep.join(filter(None, [str(measuring.ROOT), os.environ.get("PYTHONPATH", "")]))
    argv = [sys.executable, "-m", "autotune", "verify", "--format", "json", "--quiet", "--no-lock"]
    argv += ["--budget", budget, "--python", sys.executable, "--against", "other.py", "train.py"]
    load = os.getloadavg()[0]
    environ = {**os.environ, "PYTHONPATH": path, "OMP_NUM_THREADS": "1"}
    ended = measuring.run(argv, cwd=folder, environ=environ, limit_s=600)
    try:
        document = json.loads(ended.out)
    except ValueError:
        print(f"{factor} failed: {measuring.failure(ended)} load {load:.1f}", file=sys.stderr, flush=True)
        return {"verdict": "failed", "why": measuring.failure(ended), "load": load}
    print(f"{factor} {document['verdict']} {document['speedup']:.3f} load {load:.1f}", file=sys.stderr, flush=True)
    return {**{key: document[key] for key in KEPT}, "load": load}


KEPT = ("verdict", "speedup", "low", "high", "spread", "why", "starts", "seconds")


@contextlib.contextmanager
def busy(num_cpus: int) -> Iterator[None]:
    """Other work beside the measurement."""
    others = [multiprocessing.Process(target=spin, daemon=True) for _ in range(num_cpus)]
    for one in others:
        one.start()
    try:
        yield
    finally:
        for one in others:
            one.kill()


def spin() -> None:
    while True:
        time.monotonic()


def text(found: dict[str, list[measuring.Json]]) -> str:
    head = ("files", "runs", "faster", "slower", "no difference", "cannot tell", "failed", "median speedup", "spread")
    return measuring.table(head, [row(case, runs) for case, runs in found.items()])


def row(case: str, runs: list[measuring.Json]) -> tuple[str, ...]:
    counts = Counter(run["verdict"] for run in runs)
    kinds = ("faster", "slower", "no_difference", "cannot_tell", "failed")
    told = sorted(run["speedup"] for run in runs if "speedup" in run)
    spreads = sorted(run["spread"] for run in runs if "spread" in run)
    middles = [f"{values[len(values) // 2]:.3f}" if values else "-" for values in (told, spreads)]
    return (case, str(len(runs)), *(str(counts[kind]) for kind in kinds), *middles)


if __name__ == "__main__":
    main()
