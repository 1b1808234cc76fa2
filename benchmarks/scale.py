"""At scale, by simulation: many runs in a folder, a job of many ranks, a study with many trials and tuners.

Recordings are multiplied from real ones: of the ranks of a job of `benchmarks/stragglers.py --keep FOLDER`. Each row is
a fresh process: seconds of wall time and CPU, and the most memory that it held.

    python benchmarks/stragglers.py --keep /tmp/jobs --only "two nodes, loop"
    python benchmarks/scale.py --job "/tmp/jobs/two-nodes,-loop/the-job" --runs 1000 --ranks 256 --trials 2000
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import random
import resource
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import Any

from autotune.collect import job_parts

AUTOTUNE = (sys.executable, "-m", "autotune")
PROCESSES = 4
"""Over which the tuners of the study are divided; those of one process are threads, each with a storage of its own."""

LAST = 128
"""Trials that are made at the end of a long study."""

AXES = (8, 8, 8, 8)
"""Points of the axes of the space that is searched: 4,096 candidates."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--job", type=Path, required=True, help="folder of a job with recordings of several ranks")
    parser.add_argument("--runs", type=int, nargs="*", default=[100, 1000])
    parser.add_argument("--ranks", type=int, nargs="*", default=[16, 64, 256])
    parser.add_argument("--trials", type=int, nargs="*", default=[500, 2000])
    parser.add_argument("--tuners", type=int, default=64)
    args = parser.parse_args()
    rows = sorted(args.job.glob(f"{job_parts.PREFIX}*/recording-*.json"))
    if not rows:
        raise SystemExit(f"{args.job}: there are no recordings of a job")
    print("| what | size | seconds | CPU s | memory |\n|---|---|---|---|---|")
    with tempfile.TemporaryDirectory() as temporary:
        place = Path(temporary)
        for num in args.ranks:
            many = ranks(rows, num, place / f"job-{num}")
            told(f"report, {num} ranks", _size(many), [*AUTOTUNE, "report", str(many)])
            told(f"report, {num} ranks, JSON", "", [*AUTOTUNE, "report", str(many), "--format", "json"])
        for num in args.runs:
            for stored in (True, False):
                home = runs(rows[:1], num, place / f"runs-{num}-{stored}", stored)
                name = "kept lines" if stored else "from recordings"
                told(f"runs, {num} runs, {name}", _size(home), [*AUTOTUNE, "runs", str(home), "--format", "csv"])
        for num in args.trials:
            study(num, args.tuners, place / f"study-{num}.journal")


def told(what: str, size: str, command: list[str]) -> None:
    """Run it and print its row."""
    began = time.monotonic()
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL)
    _, status, used = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise SystemExit(f"{what}: exit code {process.returncode}")
    _row(what, size, time.monotonic() - began, used)


def _row(what: str, size: str, seconds: float, used: resource.struct_rusage) -> None:
    cpu_s = used.ru_utime + used.ru_stime
    print(f"| {what} | {size} | {seconds:.1f} | {cpu_s:.1f} | {used.ru_maxrss >> 10} MiB |", flush=True)


def _size(folder: Path) -> str:
    return f"{sum(file.stat().st_size for file in folder.rglob('*') if file.is_file()) / 1e6:.0f} MB"


def ranks(files: list[Path], num: int, place: Path, per_node: int = 8) -> Path:
    """The folder of a job of `num` ranks, in parts of `per_node`: the recordings of a few, taken again and again."""
    read = [json.loads(file.read_text()) for file in files]
    read.sort(key=lambda row: int(row["process"]["rank"]))
    for node in range(num // per_node):
        own = range(node * per_node, (node + 1) * per_node)
        part = place / f"{job_parts.PREFIX}node{node:03d}"
        part.mkdir(parents=True)
        for rank in own:
            # The late one is there once: the last of those that were recorded.
            row = read[-1] if rank == num - 1 else read[rank % (len(read) - 1)]
            process = row["process"] | {"rank": rank, "world_size": num, "pid": 1000 + rank, "host": f"node{node:03d}"}
            text = json.dumps(row | {"process": process})
            (part / f"recording-{1000 + rank}.json").write_text(text)
        about = {"schema": job_parts.SCHEMA, "host": f"node{node:03d}", "world_size": num, "ranks": list(own)}
        about |= {"began": 0.0, "ended": 9.0}
        (part / job_parts.ABOUT).write_text(json.dumps(about))
        shutil.copy(files[0].parent / "run.json", part)
    return place


def runs(files: list[Path], num: int, place: Path, stored: bool) -> Path:
    """A folder with ten projects and `num` runs of one rank, with the line that a diagnosis keeps or without."""
    row = json.loads(files[0].read_text())
    text = json.dumps(row | {"process": row["process"] | {"world_size": 1, "rank": 0}})
    for number in range(num):
        name = f"20261101-{number // 3600:02d}{number // 60 % 60:02d}{number % 60:02d}-{number:06x}"
        folder = place / f"project-{number % 10}" / ".autotune" / "runs" / name
        folder.mkdir(parents=True)
        (folder / "recording-1.json").write_text(text)
        (folder / "run.json").write_text("{}")
        if stored:
            (folder / "summary.json").write_text(_summary(folder))
    return place


def _summary(folder: Path) -> str:
    from msgspec import to_builtins

    from autotune.diagnose import job_summaries
    from autotune.diagnose.diagnose import load
    from autotune.report.job_summary import job_summary

    if not _LINES:
        _LINES.append(to_builtins(job_summary(load(str(folder), cwd=folder), folder.name, None)))
    return json.dumps({"schema": job_summaries.SCHEMA, "summary": _LINES[0], "job": "", "is_part": False})


_LINES: list[Any] = []


def study(num: int, tuners: int, file: Path) -> None:
    """A journal of `num` trials, the last LAST of which `tuners` tuners make at once. A trial takes no time: what
    counts is the study's own."""
    before = max(0, num - LAST)
    filled = measured_fill(file, before)
    began = time.monotonic()
    per_process = max(1, tuners // PROCESSES)
    command = [sys.executable, __file__, "--tuner", str(file), str(num), str(per_process)]
    # A tuner has its machine for itself; here they share one.
    environ = {**os.environ, "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
    processes = [
        subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environ) for _ in range(tuners // per_process)
    ]
    told_, cpu_s, most = [], 0.0, 0
    for process in processes:
        assert process.stdout is not None
        out = process.stdout.read()
        _, status, used = os.wait4(process.pid, 0)
        if os.waitstatus_to_exitcode(status):
            raise SystemExit("a tuner failed")
        told_.append(json.loads(out))
        cpu_s += used.ru_utime + used.ru_stime
        most = max(most, used.ru_maxrss)
    seconds = time.monotonic() - began
    attempts = [number for one in told_ for number in one["numbers"]]
    lost, doubled = num - before - len(set(attempts)), len(attempts) - len(set(attempts))
    ms = sorted(each for one in told_ for each in one["ms"])
    size = f"{file.stat().st_size / 1e6:.0f} MB"
    print(f"| study, {num} trials, {tuners} tuners | {size} | {seconds:.1f} | {cpu_s:.1f} | {most >> 10} MiB |")
    middle, late = ms[len(ms) // 2], ms[int(len(ms) * 0.99)]
    print(f"| - filled with {before} trials by one process in {filled:.0f} s | | | | |")
    print(f"| - one trial of it: proposal and bookkeeping | median {middle:.0f} ms, 99 % {late:.0f} ms | | | |")
    print(f"| - trials lost {max(0, lost)}, doubled {doubled} | | | | |", flush=True)


def measured_fill(file: Path, num: int) -> float:
    """Seconds that it takes to store `num` trials, one after the other."""
    import optuna
    from msgspec import to_builtins
    from optuna.trial import TrialState, create_trial

    from autotune.model.tuned import Outcome, SearchTrial
    from autotune.tune.parameters import distributions, params
    from autotune.tune.study import RECORD, Study
    from autotune.tune.surrogate import candidates

    began, space = time.monotonic(), _space()
    own: optuna.Study = Study(space, lambda settings: None, f"journal:{file}", longest_s=3600.0)._study
    for number, candidate in zip(range(num), itertools.cycle(candidates(space))):
        speed = _speed(candidate)
        trial = SearchTrial(number, candidate, Outcome.COMPLETED, 1.0, samples_per_s=speed)
        own.add_trial(
            create_trial(
                state=TrialState.COMPLETE,
                value=speed,
                params=params(space, candidate),
                distributions=distributions(space),
                user_attrs={RECORD: to_builtins(trial)},
            )
        )
    return time.monotonic() - began


def _space() -> Any:
    from autotune.model.tuned import Axis, Space

    axes = tuple(
        Axis(f"axis{at}", "run", tuple({f"x.{at}": value} for value in range(size)), 0) for at, size in enumerate(AXES)
    )
    return Space(axes, memory_limit_bytes=100)


def _speed(candidate: tuple[int, ...]) -> float:
    return 100.0 + sum(candidate) + hash(candidate) % 7


def tuner(file: str, num: int, threads: int) -> None:
    """One process of tuners: prints the numbers of its trials and what each of them took beside the trial itself."""
    from autotune.model.tuned import Outcome, SearchTrial
    from autotune.tune.study import Study
    from autotune.tune.surrogate import candidates

    space = _space()
    numbers: list[int] = []
    ms: list[float] = []

    def tune(mine: int) -> None:
        one = Study(space, lambda settings: None, f"journal:{file}", longest_s=3600.0)
        draw = random.Random(os.getpid() + mine)
        while True:
            began = time.monotonic()
            trials = one.trials()
            if len(trials) >= num:
                return
            proposal = one.sampler.propose(trials, one.running())
            # Where all of the sample was tried, some are measured again.
            candidate = proposal.candidate if proposal is not None else draw.choice(candidates(space))
            with one.attempt(candidate) as begun:
                if begun is None:
                    continue
                speed = _speed(begun.candidate)
                one.tell(begun, SearchTrial(begun.number, begun.candidate, Outcome.COMPLETED, 1.0, samples_per_s=speed))
            numbers.append(begun.number)
            ms.append((time.monotonic() - began) * 1000)

    every = [threading.Thread(target=tune, args=(mine,)) for mine in range(threads)]
    for one in every:
        one.start()
    for one in every:
        one.join()
    print(json.dumps({"numbers": numbers, "ms": ms}))


if __name__ == "__main__":
    if sys.argv[1:2] == ["--tuner"]:
        tuner(sys.argv[2], int(sys.argv[3]), int(sys.argv[4]))
    else:
        main()
