"""Measures the labels: how much faster each case gets by its hand fix, or by what tempts in a healthy one.

python -m benchmarks.accuracy.measure [--corpus FOLDER] [--only ID ...] [--rounds 4] [--for 480] [--order ABBA]

Both sides are started in turn in fresh processes, A B B A, each in a fresh copy of its folder, with a step counter of
its own (counter/): nothing of autotune runs. A label holds where the whole 95 % interval of a fault's gain lies above
5 %; a healthy case's where the gain is below 5 % and its interval below 15 %. A round goes through all cases that are
not decided; each is kept in measured.json at once, and a later call goes on. A case that has changed since is measured
again. Nothing else should run meanwhile.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import shutil
import statistics
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import corpus
import measuring

from benchmarks.accuracy import cases
from benchmarks.accuracy.cases import HERE, LABELLED, Case

MEASURED = LABELLED / "measured.json"
LEAST_GAIN = 1.05
NO_GAIN = 1.15
"""What the gain of a healthy case surely stays below, which is less than LEAST_GAIN as measured."""

LIMIT_S = 90.0
QUANTILE = {2: 4.303, 4: 2.776, 6: 2.447, 10: 2.228, 14: 2.145, 18: 2.101, 22: 2.074}
"""Of Student's t, two-sided 95 %, by degrees of freedom: two sides of 2, 3, 4, 6 ... starts."""


@dataclass(frozen=True, slots=True)
class Gain:
    """How many times faster the changed side is, with the 95 % interval over starts."""

    speedup: float
    low: float
    high: float
    starts: int


def gain(before_ms: Sequence[float], after_ms: Sequence[float], work: float = 1.0) -> Gain | None:
    """From milliseconds per step of each start, as many on both sides; None for other numbers than QUANTILE has.

    The interval is that of a difference of two means of logarithms with one variance (Student's t).
    """
    sides = [[math.log(ms) for ms in side] for side in (before_ms, after_ms)]
    starts = len(before_ms)
    if len(after_ms) != starts or 2 * starts - 2 not in QUANTILE:
        return None
    middle = statistics.fmean(sides[0]) - statistics.fmean(sides[1]) + math.log(work)
    variance = statistics.fmean(statistics.variance(side) for side in sides)
    half = QUANTILE[2 * starts - 2] * math.sqrt(2 * variance / starts)
    return Gain(*(math.exp(value) for value in (middle, middle - half, middle + half)), starts)


def verdict(case: Case, found: Gain | None) -> str:
    """What the interval says: "holds", "refuted" or "undecided"; "not measured" without one."""
    if found is None:
        return "not measured"
    gains, gains_nothing = found.low >= LEAST_GAIN, found.speedup < LEAST_GAIN and found.high < NO_GAIN
    if not gains and not gains_nothing:
        return "undecided"
    return "holds" if gains_nothing == case.is_healthy else "refuted"


def start_once(case: Case, side: corpus.Case, template: Path) -> float | str:
    """Milliseconds per step of one start in a fresh copy of the folder; a line that says why there are none."""
    with tempfile.TemporaryDirectory(prefix="start-") as place:
        folder, result = Path(place) / "run", Path(place) / "seconds"
        shutil.copytree(template, folder, symlinks=True)
        environ = dict(side.environ)
        environ["PYTHONPATH"] = os.pathsep.join(filter(None, [str(HERE / "counter"), environ.get("PYTHONPATH", "")]))
        environ |= {"ACCURACY_WINDOW": f"{case.warmup} {case.steps}", "ACCURACY_RESULT": str(result)}
        cwd = folder / side.cwd.relative_to(template)
        ended = measuring.run(side.argv, cwd=cwd, environ=environ, limit_s=LIMIT_S)
        if not result.exists():
            return measuring.failure(ended)
        return 1e3 * float(result.read_text(encoding="utf-8")) / case.steps


def measure(case: Case, given: Path | None, order: str) -> dict[str, list[float]] | str:
    """Milliseconds per step of the starts of each side, in the order given; a line that says what went wrong."""
    with tempfile.TemporaryDirectory(prefix=f"measure-{case.id}-") as place:
        sides = {}
        for name in dict.fromkeys(order):
            folder = (Path(place) / name).resolve()
            try:
                sides[name] = cases.laid_out(case, folder, given, is_changed=name == "B"), folder
            except (OSError, ValueError) as error:
                return str(error)
        times: dict[str, list[float]] = {name: [] for name in sides}
        for name in order:
            took = start_once(case, *sides[name])
            if isinstance(took, str):
                return f"{name}: {took}"
            times[name].append(took)
        return times


def kept(path: Path) -> dict[str, measuring.Json]:
    return json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}


def known(case: Case, rows: dict[str, measuring.Json]) -> Gain | None:
    """What is kept of this case as it is now, and else what its author measured."""
    row = rows.get(case.id)
    if row and row["stamp"] == cases.stamp(case):
        return gain(row["A"], row["B"], case.work)
    return gain(case.ms_faulty, case.ms_repaired)


def add(case: Case, times: dict[str, list[float]], path: Path) -> None:
    """Keep the times beside those of earlier rounds, at once."""
    rows, stamp = kept(path), cases.stamp(case)
    old = rows.get(case.id, {})
    sides = {name: [*(old[name] if old.get("stamp") == stamp else []), *map(rounded, times[name])] for name in "AB"}
    rows[case.id] = {"stamp": stamp, **sides}
    path.with_suffix(".part").write_text(json.dumps(rows, indent=1) + "\n", encoding="utf-8")
    path.with_suffix(".part").replace(path)


def rounded(ms: float) -> float:
    return round(ms, 2)


def wanted(every: Sequence[Case], rounds: int, path: Path) -> Iterator[Case]:
    """Cases that are not decided, round by round."""
    for number in range(rounds):
        for case in every:
            found = known(case, kept(path))
            is_open = found is not None and found.starts <= 2 * number and verdict(case, found) == "undecided"
            if is_open or (found is None and number == 0):
                yield case


def line(case: Case, found: Gain | None) -> str:
    if found is None:
        return f"{case.id}: not measured"
    interval = f"{found.speedup:.2f} ({found.low:.2f} to {found.high:.2f}), {found.starts} starts a side"
    return f"{case.id}: {interval}: {verdict(case, found)}"


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--corpus", type=Path, metavar="FOLDER", help="folder with prepare.sh; without it own scripts only"
    )
    parser.add_argument("--only", nargs="+", default=[], metavar="ID")
    parser.add_argument("--rounds", type=int, default=4, help="at most, of each case (4)")
    parser.add_argument("--for", dest="for_s", type=float, default=math.inf, help="begin no case after so many seconds")
    parser.add_argument("--out", type=Path, default=MEASURED, metavar="FILE", help=f"({MEASURED.name})")
    parser.add_argument("--order", default="ABBA", help="of the starts of a round; AB only shows, and keeps nothing")
    return parser.parse_args()


def main() -> None:
    given, began = arguments(), time.monotonic()
    every = [case for case in cases.read().cases if case.has_sides and (not given.only or case.id in given.only)]
    every = [case for case in every if given.corpus or not case.corpus]
    every = [case for case in every if given.only or case.set_name not in cases.ON_GPU]
    todo = wanted(every, given.rounds, given.out) if given.order == "ABBA" else iter(every)
    for case in todo:
        if time.monotonic() - began > given.for_s:
            break
        times = measure(case, given.corpus, given.order)
        if isinstance(times, str):
            print(f"{case.id}: {times}", flush=True)
        elif given.order != "ABBA":
            print(case.id, {name: [round(ms, 1) for ms in side] for name, side in times.items()}, flush=True)
        else:
            add(case, times, given.out)
            print(line(case, known(case, kept(given.out))), flush=True)
    rows = kept(given.out)
    said = [verdict(case, known(case, rows)) for case in every]
    print({word: said.count(word) for word in dict.fromkeys(said)}, file=sys.stderr)


if __name__ == "__main__":
    main()
