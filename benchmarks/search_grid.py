"""Records what search.py replays: the step time of every configuration of small grids, and what a diagnosis knows.

Each workload (a kind of scripts/loading.py) is diagnosed once and started once as a trial is; then all of its
configurations train in turn, in another order each round, in one warm process a round. The file is written after every
round, and a later call goes on where an earlier one ended: `search_grid.py --for 400 results/search-grid.json`.
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import random
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import cast

import measuring

sys.path.insert(0, str(measuring.ROOT))

from autotune import collect
from autotune.collect.artefacts import project_root
from autotune.diagnose.diagnose import load
from autotune.model.evidence import Evidence, Value
from autotune.model.tuned import Axis, Space
from autotune.verify.scratch import run_folder

SCRIPT = measuring.SCRIPTS / "loading.py"
GLOBAL_BATCH = 16
WORDS = {
    "loader.batch_size": "batch",
    "train.accumulation_steps": "accumulate",
    "loader.num_workers": "workers",
    "loader.prefetch_factor": "prefetch",
    "train.num_threads": "threads",
    "optimizer.fused": "fused",
}
"""Canonical setting -> the word of scripts/loading.py."""

Point = Mapping[str, Value]


@dataclass(frozen=True, slots=True)
class Workload:
    """A kind of scripts/loading.py and the grid over it; the first point of each axis is what its user has."""

    name: str
    kind: str
    batches: tuple[int, ...]
    loaders: tuple[Point, ...]
    updates: tuple[Point, ...] = ()

    @property
    def space(self) -> Space:
        batches = tuple(
            {"loader.batch_size": size, "train.accumulation_steps": GLOBAL_BATCH // size} for size in self.batches
        )
        threads = ({"train.num_threads": 2}, {"train.num_threads": 1})
        axes = (
            Axis("batch", "loader#train", batches, 0),
            Axis("workers", "loader#train", self.loaders, 0),
            Axis("threads", "run", threads, 0),
        )
        return Space((*axes, Axis("fused", "optimizer#0", self.updates, 0, is_ordered=False)) if self.updates else axes)


def loaders(*pairs: tuple[int, int | None]) -> tuple[Point, ...]:
    """Points of the workers axis: (workers, prefetch; None: torch's own)."""
    return tuple(
        {"loader.num_workers": count, **({"loader.prefetch_factor": each} if each else {})} for count, each in pairs
    )


MANY = loaders((0, None), (1, None), (2, None), (2, 8), (3, None), (4, None))
FEW = loaders((0, None), (1, None), (2, None))
FUSED = ({"optimizer.fused": False}, {"optimizer.fused": True})
WORKLOADS = (
    Workload("slow reads", "remote-uneven", (2, 4, 8, 16), MANY),
    Workload("JSON", "json", (2, 4, 8, 16), MANY),
    Workload("reads and decoding", "mixed", (2, 4, 8, 16), MANY),
    Workload("padded text", "text-wide", (2, 4, 8, 16), FEW, FUSED),
    Workload("small kernels", "deep", (2, 4, 8, 16), FEW, FUSED),
)


def words(settings: Point) -> str:
    """Settings as scripts/loading.py takes them: "batch=4 accumulate=4 ..."."""
    return " ".join(f"{WORDS[name]}={int(cast(float, value))}" for name, value in settings.items())


def configurations(space: Space) -> list[str]:
    """Every configuration of a grid as words; the user's own is the first."""
    every = itertools.product(*(range(len(axis.points)) for axis in space.axes))
    return [words(space.settings(candidate)) for candidate in every]


def known(evidence: Evidence) -> measuring.Json:
    """The numbers that a forecast may look up, and the device: no text of this machine is kept."""
    facts = {subject: dict(values) for subject, values in evidence.facts.items()}
    for (subject, name), setting in evidence.settings.items():
        if setting.value is not None:
            facts.setdefault(subject, {}).setdefault(name, setting.value)
    return {s: {n: v for n, v in values.items() if is_kept(n, v)} for s, values in facts.items()}


def is_kept(name: str, value: object) -> bool:
    return isinstance(value, bool | int | float) or name == "device.type"


def environment() -> dict[str, str]:
    return {**os.environ, "PYTHONWARNINGS": "ignore"}


def begun(workload: Workload, folder: Path, limit_s: float) -> measuring.Json:
    """The facts of a diagnosis of the user's own configuration, and the seconds of it and of one trial."""
    own = configurations(workload.space)[0]
    command = [sys.executable, str(SCRIPT), "--kind", workload.kind, own]
    document, ended = measuring.diagnose(command, ["--no-lock"], cwd=folder, environ=environment(), limit_s=limit_s)
    if document is None:
        raise SystemExit(f"search_grid: {workload.name}: {measuring.failure(ended)}")
    facts = known(load(document["run"]["folder"], cwd=folder).evidence)
    trial_s = trial(command, folder)
    return {"facts": facts, "diagnose_s": round(ended.wall_s, 2), "trial_s": round(trial_s, 2)}


def trial(command: Sequence[str], folder: Path) -> float:
    """Seconds of one fresh run with a window and no what-ifs."""
    request = collect.Request(what_ifs=False)
    planned = collect.plan_command(tuple(command), sys.executable, folder, environment())
    begin = time.monotonic()
    with run_folder(project_root(folder)) as place:
        collect.collect(request, planned, place, cwd=folder, environ=environment(), show=lambda status: None)
    return time.monotonic() - begin


def timed(workload: Workload, number: int, folder: Path, seconds: float, limit_s: float) -> Mapping[str, list[float]]:
    """Milliseconds per step of every configuration, in an order of this round's own."""
    result, every = folder / "times.json", configurations(workload.space)
    random.Random(f"{workload.name} {number}").shuffle(every)
    argv = [sys.executable, str(SCRIPT), "--kind", workload.kind, "--result", str(result), *every]
    options = ["--rounds", "1", "--seconds", str(seconds)]
    ended = measuring.run([*argv, *options], cwd=folder, environ=environment(), limit_s=limit_s)
    if ended.code != 0:
        raise SystemExit(f"search_grid: {workload.name}: {measuring.failure(ended)}")
    times: Mapping[str, list[float]] = json.loads(result.read_text(encoding="utf-8"))
    return times


def rounds_of(row: measuring.Json) -> int:
    return min((len(times) for times in row["times_ms"].values()), default=0)


def record(file: Path, rounds: int, seconds: float, for_s: float, chosen: Sequence[Workload]) -> None:
    """Add to `file` until every workload has `rounds` rounds, or the time is likely to be over."""
    begin, longest = time.monotonic(), 0.0
    found = rows_of(file)
    with project() as folder:
        for number, workload in itertools.product(range(rounds), chosen):
            if rounds_of(found.get(workload.name, {"times_ms": {}})) > number:
                continue
            started = time.monotonic()
            if started - begin + longest > for_s:
                return
            if workload.name not in found:
                found[workload.name] = {"name": workload.name, "times_ms": {}, **begun(workload, folder, for_s)}
            times_ms = found[workload.name]["times_ms"]
            for setting, times in timed(workload, number, folder, seconds, for_s).items():
                times_ms.setdefault(setting, []).extend(round(ms, 3) for ms in times)
            longest = max(longest, time.monotonic() - started)
            print(f"{workload.name}: round {number + 1}, {time.monotonic() - started:.0f} s", flush=True)
            save(file, found)


def diagnose_again(file: Path, limit_s: float, chosen: Sequence[Workload]) -> None:
    """Keep the times, and replace what a diagnosis knows: the probe has changed."""
    found = rows_of(file)
    with project() as folder:
        for workload in chosen:
            found[workload.name] |= begun(workload, folder, limit_s)
            save(file, found)


def rows_of(file: Path) -> dict[str, measuring.Json]:
    rows = json.loads(file.read_text(encoding="utf-8"))["workloads"] if file.exists() else []
    return {row["name"]: row for row in rows}


@contextmanager
def project() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="search-") as name:
        (Path(name) / "pyproject.toml").touch()
        yield Path(name)


def save(file: Path, found: Mapping[str, measuring.Json]) -> None:
    document = {"schema": 1, "cpus": os.cpu_count(), "workloads": list(found.values())}
    part = file.with_suffix(".part")
    part.write_text(json.dumps(document, indent=1), encoding="utf-8")
    part.replace(file)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("file", type=Path)
    parser.add_argument("--rounds", type=int, default=4)
    parser.add_argument("--seconds", type=float, default=0.5, help="of one configuration in one round (0.5)")
    parser.add_argument("--for", dest="for_s", type=float, default=400.0, help="seconds, about (400)")
    parser.add_argument("--only", nargs="+", choices=[one.name for one in WORKLOADS], metavar="WORKLOAD")
    parser.add_argument("--diagnose-again", action="store_true", help="keep the times; the probe has changed")
    args = parser.parse_args()
    chosen = [one for one in WORKLOADS if args.only is None or one.name in args.only]
    if args.diagnose_again:
        diagnose_again(args.file, args.for_s, chosen)
    else:
        record(args.file, args.rounds, args.seconds, args.for_s, chosen)


if __name__ == "__main__":
    main()
