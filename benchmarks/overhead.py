"""What the probe costs: per step at about 5, 20 and 100 ms, and once per run.

Per step: one process under the probe (`--keep-going`; the window covers all of it) takes the probe's patches off and
puts them on again, block by block in random order; the sampler runs on, and the system counts its CPU. Two processes
of one script differ by up to a fifth on a shared host, by where their memory lies and by what runs beside them; blocks
of one process do not. The ratio is the median over the rounds of all processes with its 95 % bootstrap interval; wider
than 1 % it is called unresolved. Beside it the probe's own account of the same blocks: the time that its hooks took,
and what it puts down for the calls of submodules; and the sampler.

Once per run: CPU time by wait4 of a whole run, native against probed, the command line's own included, less what the
steps cost more.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import measuring

STEADY = measuring.SCRIPTS / "steady.py"
WARMUP = 10
RESOLVED = 0.01
BLOCK_S = 0.5
LEAST_BLOCK = 4


@dataclass(frozen=True, slots=True)
class Process:
    """One process under the probe: the ratios probed / native of its rounds, and what came once."""

    native_ms: float
    wall: tuple[float, ...]
    cpu: tuple[float, ...]
    account: tuple[float, ...]
    sampler: tuple[float, ...]
    fixed_cpu_s: float


@dataclass(frozen=True, slots=True)
class Row:
    """One target: medians over the rounds of its processes, with intervals; `account`, `sampler`: shares of a step."""

    target_ms: float
    native_ms: float
    processes: int
    rounds: int
    wall: tuple[float, float, float]
    cpu: tuple[float, float, float]
    account: tuple[float, float, float]
    sampler: tuple[float, float, float]
    fixed_cpu_s: tuple[float, float, float]


def environment() -> dict[str, str]:
    """One thread: more of them spin against each other as soon as anything else runs."""
    return {**os.environ, "OMP_NUM_THREADS": "1"}


def measure_process(batch_size: int, block: int, rounds: int, folder: Path, limit_s: float) -> Process:
    """The script twice: under the probe for its rounds, and natively for the CPU time of the whole run."""
    result = folder / "rounds.json"
    sizes = {"--batch-size": batch_size, "--warmup": WARMUP, "--rounds": rounds, "--block": block, "--result": result}
    argv = [sys.executable, str(STEADY), *(str(part) for pair in sizes.items() for part in pair)]
    native = measuring.run(argv, cwd=folder, environ=environment(), limit_s=limit_s)
    if native.code != 0:
        raise SystemExit(f"overhead: a run failed: {measuring.failure(native)}")
    steps = json.loads(result.read_text())["steps"]
    options = ["--keep-going", "--no-lock", "--warmup", str(WARMUP), "--steps", str(steps)]
    document, probed = measuring.diagnose(
        argv, [*options, "--time-limit", str(limit_s)], cwd=folder, environ=environment(), limit_s=limit_s
    )
    if document is None or probed.code != 0:
        raise SystemExit(f"overhead: the probed run failed: {measuring.failure(probed)}")
    return compared(json.loads(result.read_text()), probed.cpu_s - native.cpu_s)


def compared(result: measuring.Json, more_cpu_s: float) -> Process:
    rounds = result["rounds"]

    def ratios(quantity: str) -> tuple[float, ...]:
        return tuple(each["probed"][quantity] / each["native"][quantity] for each in rounds)

    own = [(each["probed"]["own_ms"] + result["calls_ms"]) / each["probed"]["wall_ms"] for each in rounds]
    more_ms = statistics.fmean(each["probed"]["cpu_ms"] - each["native"]["cpu_ms"] for each in rounds)
    return Process(
        native_ms=statistics.median(each["native"]["wall_ms"] for each in rounds),
        wall=ratios("wall_ms"),
        cpu=ratios("cpu_ms"),
        account=tuple(own),
        sampler=tuple(each["probed"]["sampler_ms"] / each["probed"]["wall_ms"] for each in rounds),
        fixed_cpu_s=more_cpu_s - more_ms * result["steps"] / 2 / 1e3,
    )


def measure(target_ms: float, processes: int, rounds: int, folder: Path, limit_s: float) -> Row:
    """All processes of one target."""
    calibrated = measuring.run(
        [sys.executable, str(STEADY), "--calibrate", str(target_ms)],
        cwd=folder,
        environ=environment(),
        limit_s=limit_s,
    )
    if calibrated.code != 0:
        raise SystemExit(f"overhead: calibration failed: {measuring.failure(calibrated)}")
    block = max(LEAST_BLOCK, round(1e3 * BLOCK_S / target_ms))
    made = []
    for number in range(processes):
        made.append(measure_process(int(calibrated.out), block, rounds, folder, limit_s))
        so_far = percent(measuring.interval(made[-1].wall))
        print(f"{target_ms:g} ms: process {number + 1} of {processes}: {so_far}", file=sys.stderr, flush=True)
    return summarise(target_ms, made)


def summarise(target_ms: float, made: Sequence[Process]) -> Row:
    return Row(
        target_ms=target_ms,
        native_ms=statistics.median(process.native_ms for process in made),
        processes=len(made),
        rounds=sum(len(process.wall) for process in made),
        wall=measuring.interval([ratio for process in made for ratio in process.wall]),
        cpu=measuring.interval([ratio for process in made for ratio in process.cpu]),
        account=measuring.interval([share for process in made for share in process.account]),
        sampler=measuring.interval([share for process in made for share in process.sampler]),
        fixed_cpu_s=measuring.interval([process.fixed_cpu_s for process in made]),
    )


def percent(ratio: tuple[float, float, float]) -> str:
    """A ratio of 1.01 as "+1.0 % (+0.7 to +1.3)", or as unresolved when the interval is wide."""
    middle, low, high = (100 * (value - 1) for value in ratio)
    unresolved = "unresolved: " if high - low > 100 * RESOLVED else ""
    return f"{unresolved}{middle:+.2f} % ({low:+.2f} to {high:+.2f})"


def as_text(rows: Sequence[Row]) -> str:
    head = ["step", "processes (rounds)", "wall", "CPU", "own account", "sampler", "CPU s per run"]
    cells = [
        [
            f"{row.native_ms:.1f} ms",
            f"{row.processes} ({row.rounds})",
            percent(row.wall),
            percent(row.cpu),
            "{:.2f} % ({:.2f} to {:.2f})".format(*(100 * share for share in row.account)),
            "{:.2f} % ({:.2f} to {:.2f})".format(*(100 * share for share in row.sampler)),
            "{:+.2f} ({:+.2f} to {:+.2f})".format(*row.fixed_cpu_s),
        ]
        for row in rows
    ]
    return measuring.table(head, cells)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--targets", type=float, nargs="+", default=[5.0, 20.0, 100.0], metavar="MS")
    parser.add_argument("--processes", type=int, default=3, help="processes per target (3)")
    parser.add_argument("--rounds", type=int, default=20, help="rounds of two half seconds per process (20)")
    parser.add_argument("--limit", type=float, default=600.0, help="seconds after which a run is ended (600)")
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="overhead-") as folder:
        rows = [measure(target, args.processes, args.rounds, Path(folder), args.limit) for target in args.targets]
    measuring.show({"schema": 1, "rows": [asdict(row) for row in rows]}, as_text(rows), args.json)


if __name__ == "__main__":
    main()
