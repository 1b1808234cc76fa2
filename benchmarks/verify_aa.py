"""Whether `autotune verify` can be believed: runs of identical files, and of files with a difference that is planted.

python benchmarks/verify_aa.py --runs 20 [--planted 1.10] [--load 1] [--budget 60s] [--out FILE] [--for 480]
    [--no-slicing]

Each run is the whole verb on one of small scripts, in turns: `compute` (ten micro-batches of an MLP a step, on one
thread), `loader` (a DataLoader whose samples cost more than the model) and `worker` (the same, prepared by one worker).
Planted is more work of the second side, or less: `--planted 1.10` is 11 micro-batches instead of 10, or as much more
work a sample, and `--planted 2/3` a gain of 1.5. Identical files must have no winner; what is planted is to be found.
`--load N` keeps N CPUs busy meanwhile; with `--no-slicing` the runs of a pair follow each other. Each row has the load
of the machine before and after, with the processes of the run itself in it, and what other work had of the CPUs. With
`--out FILE` every run is appended as a line at once, and a later call goes on where this one ended; `--for` ends a call
in time.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import multiprocessing
import os
import statistics
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from fractions import Fraction
from pathlib import Path

import measuring

COMPUTE = """\
import torch

torch.manual_seed(0)
torch.set_num_threads(1)
model = torch.nn.Sequential(torch.nn.Linear(256, 512), torch.nn.ReLU(), torch.nn.Linear(512, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=0.0001)
data = torch.randn(256, 256)

while True:
    for _ in range({repeats}):
        loss = model(data).pow(2).mean()
        loss.backward()
    optimizer.step()
    optimizer.zero_grad()
"""
LOADER = """\
import torch
from torch.utils.data import DataLoader, Dataset

torch.manual_seed(0)
torch.set_num_threads(1)


class Samples(Dataset):
    def __len__(self):
        return 1_000_000

    def __getitem__(self, index):
        value = torch.full((128,), float(index % 100))
        for _ in range({repeats}):
            value = value.sin()
        return value


model = torch.nn.Linear(128, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.001)
for batch in DataLoader(Samples(), batch_size=256, num_workers={workers}):
    loss = model(batch).pow(2).mean()
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
"""
SCRIPTS = {"compute": (COMPUTE, 10, 0), "loader": (LOADER, 40, 0), "worker": (LOADER, 40, 1)}
"""(text, repeats, workers): steps of about 20 ms."""

NO_SLICING = """\
from autotune.cli import main
from autotune.verify import schedule

schedule._turns = lambda rehearsed, free: None
main()
"""
"""In the place of `python -m autotune`: no pair is planned in time slices."""

ORDER = ("compute", "loader", "compute", "worker")

KEPT = ("verdict", "speedup", "low", "high", "spread", "undisturbed", "clock", "why", "starts", "steps", "seconds",
        "step_ms", "turn_s", "worth")  # fmt: skip
VERDICTS = ("faster", "slower", "no_difference", "cannot_tell", "refused", "failed")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=20, help="verify runs in all")
    parser.add_argument("--planted", type=share, default=1.0, help="work of the second side: 1.1, 2/3")
    parser.add_argument("--load", type=int, default=0, help="CPUs that are kept busy beside it")
    parser.add_argument("--budget", default="60s", help="of each run")
    parser.add_argument("--no-slicing", dest="slicing", action="store_false", help="one run of a pair after the other")
    parser.add_argument("--out", type=Path, help="file of the runs so far")
    parser.add_argument("--for", dest="for_s", type=float, help="begin no run that may end after so many seconds")
    parser.add_argument("--format", choices=("text", "json"), default="text")
    given = parser.parse_args()
    rows = measured(given, time.monotonic() + given.for_s if given.for_s else float("inf"))
    measuring.show({"runs": rows}, text(rows), given.format == "json")


def measured(given: argparse.Namespace, deadline: float) -> list[measuring.Json]:
    """All runs so far, of this call and of earlier ones; new ones until there are `--runs` of this kind."""
    rows, longest_s = stored(given.out), 0.0
    kind = {"planted": given.planted, "load": given.load, "budget": given.budget, "slicing": given.slicing}
    done = sum(kind.items() <= row.items() for row in rows)
    with busy(given.load):
        for number in range(done, given.runs):
            began = time.monotonic()
            if began + longest_s > deadline:
                break
            name = ORDER[number % len(ORDER)]
            rows.append({"script": name, **kind, **once(name, given.planted, given.budget, given.slicing)})
            keep(given.out, rows[-1])
            longest_s = max(longest_s, time.monotonic() - began)
    return rows


def once(name: str, planted: float, budget: str, slicing: bool) -> measuring.Json:
    """One verify run: what it said, and the load of the machine when it began and ended."""
    text, repeats, workers = SCRIPTS[name]
    more = round(repeats / min(planted, 1.0))
    before = os.getloadavg()[0]
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        (folder / "train.py").write_text(text.format(repeats=more, workers=workers))
        (folder / "other.py").write_text(text.format(repeats=round(more * planted), workers=workers))
        path = os.pathsep.join(filter(None, [str(measuring.ROOT), os.environ.get("PYTHONPATH", "")]))
        program = ["-m", "autotune"] if slicing else ["-c", NO_SLICING]
        argv = [sys.executable, *program, "verify", "--format", "json", "--quiet", "--no-lock"]
        argv += ["--budget", budget, "--python", sys.executable, "--against", "other.py", "train.py"]
        ended = measuring.run(argv, cwd=folder, environ={**os.environ, "PYTHONPATH": path}, limit_s=600)
    row = {"load_before": before, "load_after": os.getloadavg()[0], "wall_s": ended.wall_s}
    try:
        document = json.loads(ended.out)
    except ValueError:
        return {"verdict": "refused" if ended.code == 2 else "failed", "why": measuring.failure(ended), **row}
    return {**{key: document[key] for key in KEPT}, **row}


def share(text: str) -> float:
    return float(Fraction(text))


def stored(out: Path | None) -> list[measuring.Json]:
    if out is None or not out.exists():
        return []
    lines = out.read_text(encoding="utf-8").splitlines()
    return [{"slicing": True, **json.loads(line)} for line in lines]  # rows before the option have no such key


def keep(out: Path | None, row: measuring.Json) -> None:
    print(json.dumps(row), file=sys.stderr, flush=True)
    if out is not None:
        with out.open("a", encoding="utf-8") as file:
            file.write(json.dumps(row) + "\n")


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


def text(rows: list[measuring.Json]) -> str:
    head = ("script", "planted", "busy", "budget", "slices", "runs", *(kind.replace("_", " ") for kind in VERDICTS))
    kinds = sorted({kind_of(row) for row in rows})
    tail = ("median speedup", "widest", "CPU clock", "median pairs", "median s", "longest s", "median load")
    return measuring.table((*head, *tail), [line(kind, rows) for kind in kinds])


Kind = tuple[float, int, str, bool, str]


def kind_of(row: measuring.Json) -> Kind:
    return row["planted"], row["load"], row["budget"], row["slicing"], row["script"]


def line(kind: Kind, rows: list[measuring.Json]) -> tuple[str, ...]:
    planted, load, budget, slicing, script = kind
    of = [row for row in rows if kind_of(row) == kind]
    counts = Counter(row["verdict"] for row in of)
    told = [row for row in of if "speedup" in row]
    tail = (
        middle([row["speedup"] for row in told], "{:.3f}"),
        next((f"{row['low']:.2f}-{row['high']:.2f}" for row in sorted(told, key=width, reverse=True)), "-"),
        str(sum(row.get("clock") == "cpu" for row in told)),
        middle([row["starts"] / 2 for row in told], "{:.0f}"),
        middle([row["wall_s"] for row in of], "{:.0f}"),
        f"{max(row['wall_s'] for row in of):.0f}",
        middle([row["load_after"] for row in of], "{:.1f}"),
    )
    head = (script, f"{planted:.3g}", str(load), budget, "yes" if slicing else "no", str(len(of)))
    return (*head, *(str(counts[one]) for one in VERDICTS), *tail)


def width(row: measuring.Json) -> float:
    return float(row["high"] / row["low"])


def middle(values: list[float], form: str) -> str:
    return form.format(statistics.median(values)) if values else "-"


if __name__ == "__main__":
    main()
