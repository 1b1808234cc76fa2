"""What the probe costs: per step at about 5, 20 and 100 ms, and once per run.

Two ways, because one alone misleads. (a) The Recording's own account: what its events and its sampler took, counted
while it ran. (b) Whole runs in fresh processes, native and probed alternately (A B B A), by the step time that the
script itself measures while the probe is attached (`--keep-going`; the window covers the measured steps). The ratio of
each pair gives a median with a 95 % bootstrap interval; wider than 1 % it is called unresolved. Process CPU time is
shown beside wall time: other work on the machine moves it less. The seconds added to a whole run are CPU time by
wait4, native against probed, the command line's own included, less what the steps cost more.
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


@dataclass(frozen=True, slots=True)
class Run:
    """One run: what the script measured of its steps, and CPU seconds of the whole."""

    wall_ms: float
    cpu_ms: float
    total_cpu_s: float


@dataclass(frozen=True, slots=True)
class Account:
    """The Recording's own account of a probed run: events per step, and the share of the window they took."""

    events_per_step: float
    event_us: float
    share: float


@dataclass(frozen=True, slots=True)
class Row:
    """One target: means over the runs, ratios with their intervals, and CPU seconds added once."""

    target_ms: float
    native_ms: float
    steps: int
    pairs: int
    wall: tuple[float, float, float]
    cpu: tuple[float, float, float]
    account: Account
    fixed_cpu_s: tuple[float, float, float]


def environment() -> dict[str, str]:
    """One thread: more of them spin against each other as soon as anything else runs."""
    return {**os.environ, "OMP_NUM_THREADS": "1"}


def native(batch_size: int, steps: int, folder: Path, limit_s: float) -> Run:
    result = folder / "native.json"
    argv = [sys.executable, *script(batch_size, steps, result)]
    ended = measuring.run(argv, cwd=folder, environ=environment(), limit_s=limit_s)
    return as_run(result, ended)


def probed(batch_size: int, steps: int, folder: Path, limit_s: float) -> tuple[Run, Account]:
    result = folder / "probed.json"
    options = ["--keep-going", "--no-lock", "--warmup", str(WARMUP), "--steps", str(steps)]
    document, ended = measuring.diagnose(
        [sys.executable, *script(batch_size, steps, result)],
        [*options, "--time-limit", str(limit_s)],
        cwd=folder,
        environ=environment(),
        limit_s=limit_s,
    )
    if document is None:
        raise SystemExit(f"overhead: the probed run failed: {measuring.failure(ended)}")
    return as_run(result, ended), account(measuring.recordings(document)[0])


def script(batch_size: int, steps: int, result: Path) -> list[str]:
    sizes = {"--batch-size": batch_size, "--warmup": WARMUP, "--steps": steps, "--result": result}
    return [str(STEADY), *(str(part) for pair in sizes.items() for part in pair)]


def as_run(result: Path, ended: measuring.Ended) -> Run:
    if ended.code != 0:
        raise SystemExit(f"overhead: a run failed: {measuring.failure(ended)}")
    return Run(**json.loads(result.read_text(encoding="utf-8")), total_cpu_s=ended.cpu_s)


def account(recording: measuring.Json) -> Account:
    """Event cost x count: the probe times its own work, and counts it from start to end of the recording."""
    overhead, window = recording["overhead"], recording["window"]
    ends = window["step_ends_ns"]
    spent_ns = overhead["event_ns"] + overhead["sampler_ns"]
    return Account(
        events_per_step=overhead["events"] / len(ends),
        event_us=overhead["event_ns"] / max(1, overhead["events"]) / 1e3,
        share=spent_ns / (ends[-1] - ends[0]),
    )


def measure(target_ms: float, pairs: int, seconds: float, folder: Path, limit_s: float) -> Row:
    """All runs of one target, alternating in the order A B B A."""
    steps = max(30, round(1e3 * seconds / target_ms))
    calibrated = measuring.run(
        [sys.executable, str(STEADY), "--calibrate", str(target_ms)],
        cwd=folder,
        environ=environment(),
        limit_s=limit_s,
    )
    if calibrated.code != 0:
        raise SystemExit(f"overhead: calibration failed: {measuring.failure(calibrated)}")
    batch_size = int(calibrated.out)
    without: list[Run] = []
    beside: list[tuple[Run, Account]] = []
    for pair in range(pairs):
        for is_probed in (False, True) if pair % 2 == 0 else (True, False):
            if is_probed:
                beside.append(probed(batch_size, steps, folder, limit_s))
            else:
                without.append(native(batch_size, steps, folder, limit_s))
        print(f"{target_ms:g} ms: pair {pair + 1} of {pairs}", file=sys.stderr)
    return summarise(target_ms, steps, without, [run for run, _ in beside], [one for _, one in beside])


def summarise(
    target_ms: float, steps: int, without: Sequence[Run], beside: Sequence[Run], accounts: Sequence[Account]
) -> Row:
    both = list(zip(without, beside, strict=True))
    return Row(
        target_ms=target_ms,
        native_ms=statistics.median(run.wall_ms for run in without),
        steps=steps,
        pairs=len(both),
        wall=measuring.interval([b.wall_ms / a.wall_ms for a, b in both]),
        cpu=measuring.interval([b.cpu_ms / a.cpu_ms for a, b in both]),
        account=Account(
            events_per_step=statistics.median(one.events_per_step for one in accounts),
            event_us=statistics.median(one.event_us for one in accounts),
            share=statistics.median(one.share for one in accounts),
        ),
        fixed_cpu_s=measuring.interval(
            [b.total_cpu_s - a.total_cpu_s - (b.cpu_ms - a.cpu_ms) * steps / 1e3 for a, b in both]
        ),
    )


def percent(ratio: tuple[float, float, float]) -> str:
    """A ratio of 1.01 as "+1.0 % (+0.7 to +1.3)", or as unresolved when the interval is wide."""
    middle, low, high = (100 * (value - 1) for value in ratio)
    text = f"{middle:+.2f} % ({low:+.2f} to {high:+.2f})"
    return text if ratio[2] - ratio[1] <= RESOLVED else f"unresolved: {text}"


def as_text(rows: Sequence[Row]) -> str:
    head = ["step", "pairs x steps", "wall", "CPU", "own account", "events/step", "CPU s per run"]
    cells = [
        [
            f"{row.native_ms:.1f} ms",
            f"{row.pairs} x {row.steps}",
            percent(row.wall),
            percent(row.cpu),
            f"{100 * row.account.share:.2f} %",
            f"{row.account.events_per_step:.0f} x {row.account.event_us:.1f} us",
            "{:+.2f} ({:+.2f} to {:+.2f})".format(*row.fixed_cpu_s),
        ]
        for row in rows
    ]
    return measuring.table(head, cells)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--targets", type=float, nargs="+", default=[5.0, 20.0, 100.0], metavar="MS")
    parser.add_argument("--pairs", type=int, default=8, help="pairs of runs per target (8)")
    parser.add_argument("--seconds", type=float, default=10.0, help="measured seconds per run (10)")
    parser.add_argument("--limit", type=float, default=600.0, help="seconds after which a run is ended (600)")
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="overhead-") as folder:
        rows = [measure(target, args.pairs, args.seconds, Path(folder), args.limit) for target in args.targets]
    measuring.show({"schema": 1, "rows": [asdict(row) for row in rows]}, as_text(rows), args.json)


if __name__ == "__main__":
    main()
