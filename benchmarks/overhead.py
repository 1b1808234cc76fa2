"""What the probe costs: per step at about 5, 20 and 100 ms, and once per run.

Two ways, because one alone misleads. (a) The Recording's own account: what its events and its sampler took, counted
while it ran. (b) Two processes of one script, native and probed (`--keep-going`; the window covers the measured
steps), of which one runs while the other is paused, half a second each: a shared host gets faster and slower within
seconds, and slices this short expose both to it. The script times its own steps; steps that a pause cuts are left out.
A round is a slice of each; the ratio of a pair of processes is the median over its rounds, and the interval the 95 %
bootstrap over the pairs: wider than 1 % it is called unresolved. CPU time of the process is shown beside wall time:
other work on the machine moves it less. The seconds added to a whole run are CPU time by wait4, native against probed,
the command line's own included, less what the steps cost more.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import statistics
import sys
import tempfile
import time
from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path

import measuring

STEADY = measuring.SCRIPTS / "steady.py"
WARMUP = 10
RESOLVED = 0.01
SLICE_S = 0.5
POLL_S = 0.02
LEAST_STEPS = 2
"""Whole steps of each side in a round."""

Slices = list[tuple[float, float]]


@dataclass(frozen=True, slots=True)
class Step:
    """A step as the script timed it: monotonic seconds, and CPU milliseconds of its process."""

    begin: float
    end: float
    cpu_ms: float

    @property
    def wall_ms(self) -> float:
        return 1e3 * (self.end - self.begin)


@dataclass(frozen=True, slots=True)
class Side:
    """One process of a pair: its steps, the slices in which it ran, and CPU seconds of the whole."""

    steps: tuple[Step, ...]
    slices: tuple[tuple[float, float], ...]
    total_cpu_s: float

    def rounds(self) -> list[list[Step]]:
        """The whole steps of each slice."""
        return [[step for step in self.steps if a <= step.begin and step.end <= b] for a, b in self.slices]


@dataclass(frozen=True, slots=True)
class Account:
    """The Recording's own account of a probed run: events per step, and the share of the window they took."""

    events_per_step: float
    event_us: float
    share: float


@dataclass(frozen=True, slots=True)
class Pair:
    """What one pair of processes tells: ratios probed / native, and CPU seconds that came once."""

    native_ms: float
    rounds: int
    wall: float
    cpu: float
    fixed_cpu_s: float
    account: Account


@dataclass(frozen=True, slots=True)
class Row:
    """One target: medians over its pairs, with intervals."""

    target_ms: float
    native_ms: float
    pairs: int
    rounds: int
    wall: tuple[float, float, float]
    cpu: tuple[float, float, float]
    account: Account
    fixed_cpu_s: tuple[float, float, float]


def environment() -> dict[str, str]:
    """One thread: more of them spin against each other as soon as anything else runs."""
    return {**os.environ, "OMP_NUM_THREADS": "1"}


def script(batch_size: int, steps: int, result: Path) -> list[str]:
    sizes = {"--batch-size": batch_size, "--warmup": WARMUP, "--steps": steps, "--result": result}
    return [sys.executable, str(STEADY), "--paused", *(str(part) for pair in sizes.items() for part in pair)]


def native(argv: list[str], folder: Path, limit_s: float) -> measuring.Ended:
    ended = measuring.run(argv, cwd=folder, environ=environment(), limit_s=limit_s)
    if ended.code != 0:
        raise SystemExit(f"overhead: a run failed: {measuring.failure(ended)}")
    return ended


def probed(argv: list[str], steps: int, folder: Path, limit_s: float) -> tuple[measuring.Json, measuring.Ended]:
    options = ["--keep-going", "--no-lock", "--warmup", str(WARMUP), "--steps", str(steps)]
    document, ended = measuring.diagnose(
        argv, [*options, "--time-limit", str(limit_s)], cwd=folder, environ=environment(), limit_s=limit_s
    )
    if document is None or ended.code != 0:
        raise SystemExit(f"overhead: the probed run failed: {measuring.failure(ended)}")
    return document, ended


def account(recording: measuring.Json) -> Account:
    """Event cost x count, of the time in which the process ran: the probe times its own work."""
    overhead, window = recording["overhead"], recording["window"]
    spent_ns = overhead["event_ns"] + overhead["sampler_ns"]
    return Account(
        events_per_step=overhead["events"] / len(window["step_ends_ns"]),
        event_us=overhead["event_ns"] / max(1, overhead["events"]) / 1e3,
        share=spent_ns,
    )


def measure_pair(target_ms: float, steps: int, batch_size: int, folder: Path, limit_s: float, *, first: int) -> Pair:
    """Both processes; `first` (0 native, 1 probed) has the first slice of each round."""
    results = [folder / "native.json", folder / "probed.json"]
    commands = [script(batch_size, steps, result) for result in results]
    for result in results:
        for file in (result, result.with_suffix(".pid")):
            file.unlink(missing_ok=True)
    with ThreadPoolExecutor(2) as pool:
        plain = pool.submit(native, commands[0], folder, limit_s)
        beside = pool.submit(probed, commands[1], steps, folder, limit_s)
        slices = take_turns([plain, beside], results, first)
    (document, probed_end), native_end = beside.result(), plain.result()
    recording = measuring.recordings(document)[0]
    sides = [
        Side(tuple(Step(*row) for row in json.loads(result.read_text())), tuple(turns), ended.cpu_s)
        for result, turns, ended in zip(results, slices, (native_end, probed_end), strict=True)
    ]
    return compared(sides[0], sides[1], account(recording))


def take_turns(runs: Sequence[Future[object]], results: Sequence[Path], first: int) -> tuple[Slices, Slices]:
    """Let each process run in turn until one of them has its result; the slices that each had."""
    pid_files = [result.with_suffix(".pid") for result in results]
    while not all(file.exists() and file.read_text() for file in pid_files):
        if any(run.done() for run in runs):
            break
        time.sleep(POLL_S)
    pids = [int(file.read_text()) if file.exists() else 0 for file in pid_files]
    slices: tuple[Slices, Slices] = ([], [])
    try:
        while all(pids) and not any(result.exists() or run.done() for result, run in zip(results, runs, strict=True)):
            for side in (first, 1 - first):
                slices[side].append(one_slice(pids[side]))
    finally:
        for pid in filter(None, pids):
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGCONT)
    return slices


def one_slice(pid: int) -> tuple[float, float]:
    begin = time.monotonic()
    with suppress(ProcessLookupError):  # it ended by itself
        os.kill(pid, signal.SIGCONT)
        time.sleep(SLICE_S)
        os.kill(pid, signal.SIGSTOP)
    return begin, time.monotonic()


def compared(plain: Side, beside: Side, account: Account) -> Pair:
    both = [(a, b) for a, b in zip(plain.rounds(), beside.rounds(), strict=False) if min(len(a), len(b)) >= LEAST_STEPS]
    if not both:
        raise SystemExit("overhead: no round holds two whole steps of each side: make the slices longer")
    wall = statistics.median(mean(b, "wall_ms") / mean(a, "wall_ms") for a, b in both)
    cpu = statistics.median(mean(b, "cpu_ms") / mean(a, "cpu_ms") for a, b in both)
    native_ms = statistics.median(step.wall_ms for steps, _ in both for step in steps)
    more_s = sum(step.cpu_ms for step in beside.steps) / 1e3 - sum(step.cpu_ms for step in plain.steps) / 1e3
    ran_ns = 1e6 * native_ms * wall * len(beside.steps)
    return Pair(
        native_ms=native_ms,
        rounds=len(both),
        wall=wall,
        cpu=cpu,
        fixed_cpu_s=beside.total_cpu_s - plain.total_cpu_s - more_s,
        account=Account(account.events_per_step, account.event_us, account.share / ran_ns),
    )


def mean(steps: Sequence[Step], quantity: str) -> float:
    return statistics.fmean(getattr(step, quantity) for step in steps)


def measure(target_ms: float, pairs: int, seconds: float, folder: Path, limit_s: float) -> Row:
    """All pairs of one target."""
    calibrated = measuring.run(
        [sys.executable, str(STEADY), "--calibrate", str(target_ms)],
        cwd=folder,
        environ=environment(),
        limit_s=limit_s,
    )
    if calibrated.code != 0:
        raise SystemExit(f"overhead: calibration failed: {measuring.failure(calibrated)}")
    steps = max(30, round(1e3 * seconds / target_ms))
    made = []
    for pair in range(pairs):
        made.append(measure_pair(target_ms, steps, int(calibrated.out), folder, limit_s, first=pair % 2))
        print(f"{target_ms:g} ms: pair {pair + 1} of {pairs}: {made[-1]}", file=sys.stderr, flush=True)
    return summarise(target_ms, made)


def summarise(target_ms: float, pairs: Sequence[Pair]) -> Row:
    accounts = [pair.account for pair in pairs]
    return Row(
        target_ms=target_ms,
        native_ms=statistics.median(pair.native_ms for pair in pairs),
        pairs=len(pairs),
        rounds=sum(pair.rounds for pair in pairs),
        wall=measuring.interval([pair.wall for pair in pairs]),
        cpu=measuring.interval([pair.cpu for pair in pairs]),
        account=Account(
            events_per_step=statistics.median(one.events_per_step for one in accounts),
            event_us=statistics.median(one.event_us for one in accounts),
            share=statistics.median(one.share for one in accounts),
        ),
        fixed_cpu_s=measuring.interval([pair.fixed_cpu_s for pair in pairs]),
    )


def percent(ratio: tuple[float, float, float]) -> str:
    """A ratio of 1.01 as "+1.0 % (+0.7 to +1.3)", or as unresolved when the interval is wide."""
    middle, low, high = (100 * (value - 1) for value in ratio)
    unresolved = "unresolved: " if high - low > 100 * RESOLVED else ""
    return f"{unresolved}{middle:+.2f} % ({low:+.2f} to {high:+.2f})"


def as_text(rows: Sequence[Row]) -> str:
    head = ["step", "pairs (rounds)", "wall", "CPU", "own account", "events/step", "CPU s per run"]
    cells = [
        [
            f"{row.native_ms:.1f} ms",
            f"{row.pairs} ({row.rounds})",
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
    parser.add_argument("--pairs", type=int, default=6, help="pairs of processes per target (6)")
    parser.add_argument("--seconds", type=float, default=15.0, help="measured seconds per process (15)")
    parser.add_argument("--limit", type=float, default=600.0, help="seconds after which a run is ended (600)")
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="overhead-") as folder:
        rows = [measure(target, args.pairs, args.seconds, Path(folder), args.limit) for target in args.targets]
    measuring.show({"schema": 1, "rows": [asdict(row) for row in rows]}, as_text(rows), args.json)


if __name__ == "__main__":
    main()
