"""Where stalls of known length end up: planted in each part of a step, recovered from the diagnosis.

A small script holds up every part of its step for a few milliseconds and one part for 20 ms more, by sleeping or by
computing, and measures these stalls itself. Against a run without the extra stall: how much of it the right phase
shows, how far any other phase moved (both in % of the step, less what the script itself measured there), and whether
the parts sum to the mean. A stall in a function that nothing hooks has to be in `other`, with its frame named.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import sys
import tempfile
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import measuring

STALLS = measuring.SCRIPTS / "stalls.py"
PHASE_OF = {
    "dataset": "data_wait",
    "collate": "data_wait",
    "forward": "forward",
    "backward": "backward",
    "optimizer": "optimizer",
    "checkpoint": "checkpoint",
    "logging": "logging",
    "unhooked": "other",
}
WARMUP = 5
MOST_ERROR = 0.05
MOST_MOVED = 0.02
MOST_UNSUMMED = 0.01


@dataclass(frozen=True, slots=True)
class Run:
    """One probed run: ms per step by phase, as diagnosed and as planted, the collate share of data_wait's work, and
    the user's function that most samples of `other` fell into.
    """

    mean_ms: float
    seen_ms: Mapping[str, float]
    planted_ms: Mapping[str, float]
    collate_ms: float | None
    other_function: str


@dataclass(frozen=True, slots=True)
class Row:
    """One place and way of stalling: medians over the rounds. Shares are of the step with the stall."""

    where: str
    how: str
    planted_ms: float
    recovered_ms: float
    error_share: float
    moved_phase: str
    moved_share: float
    unsummed_share: float
    frame: str
    holds: bool


def measure(where: str, how: str, steps: int, base: float, extra: float, folder: Path, limit_s: float) -> Run:
    result = folder / "stalls.json"
    total = WARMUP + steps + 3
    plan = {"--where": where, "--how": how, "--base": base, "--extra": extra, "--steps": total, "--result": result}
    options = ["--keep-going", "--no-lock", "--warmup", str(WARMUP), "--steps", str(steps)]
    document, ended = measuring.diagnose(
        [sys.executable, str(STALLS), *(str(part) for pair in plan.items() for part in pair)],
        options,
        cwd=folder,
        environ={**os.environ, "OMP_NUM_THREADS": "1"},
        limit_s=limit_s,
    )
    if document is None or ended.code != 0:
        raise SystemExit(f"attribution: {where} {how}: {measuring.failure(ended)}")
    window = json.loads(result.read_text(encoding="utf-8"))[WARMUP : WARMUP + steps]
    planted = dict.fromkeys(PHASE_OF.values(), 0.0)
    for place, phase in PHASE_OF.items():
        planted[phase] += statistics.fmean(step[place] for step in window)
    return as_run(document, planted)


def as_run(document: measuring.Json, planted: Mapping[str, float]) -> Run:
    step, facts = document["step"], document["facts"]
    parts = {phase: ms for phase, ms in step["breakdown_ms"].items() if ms is not None}
    batch_ms, collate = facts.get("loader.batch_ms"), facts.get("loader.collate_share")
    return Run(
        mean_ms=step["mean_ms"],
        seen_ms=parts,
        planted_ms=planted,
        collate_ms=None if batch_ms is None or collate is None else batch_ms * collate,
        other_function=other_function(measuring.recordings(document)[0]),
    )


def other_function(recording: measuring.Json) -> str:
    """The user's function with most stack samples outside every phase; "" without a sample."""
    counts: Counter[str] = Counter()
    for sample in recording["samples"]:
        if sample["phase"] == "other":
            counts[sample["user_function"] or sample["leaf_function"]] += sample["count"]
    return counts.most_common(1)[0][0] if counts else ""


def compare(where: str, how: str, base: Run, run: Run) -> Row:
    """What changed from `base` to `run`, against what was planted in both."""
    phase = PHASE_OF[where]
    planted = {name: run.planted_ms[name] - base.planted_ms[name] for name in run.planted_ms}
    moved = {name: run.seen_ms[name] - base.seen_ms.get(name, 0.0) - planted.get(name, 0.0) for name in run.seen_ms}
    error = moved.pop(phase) / run.mean_ms
    if where == "collate" and run.collate_ms is not None and base.collate_ms is not None:
        error = max(error, (run.collate_ms - base.collate_ms - planted[phase]) / run.mean_ms, key=abs)
    furthest = max(moved, key=lambda name: abs(moved[name]))
    unsummed = (sum(run.seen_ms.values()) - run.mean_ms) / run.mean_ms
    frame = run.other_function if where == "unhooked" else ""
    return Row(
        where=where,
        how=how,
        planted_ms=planted[phase],
        recovered_ms=planted[phase] + error * run.mean_ms,
        error_share=error,
        moved_phase=furthest,
        moved_share=moved[furthest] / run.mean_ms,
        unsummed_share=unsummed,
        frame=frame,
        holds=abs(error) <= MOST_ERROR
        and abs(moved[furthest]) / run.mean_ms <= MOST_MOVED
        and abs(unsummed) <= MOST_UNSUMMED
        and (where != "unhooked" or frame == "bookkeeping"),
    )


def middle(rows: Sequence[Row]) -> Row:
    """The round with the median error: its numbers belong together."""
    return sorted(rows, key=lambda row: row.error_share)[len(rows) // 2]


def as_text(rows: Sequence[Row]) -> str:
    head = ["stall in", "by", "planted", "recovered", "error", "moved most", "sum - mean", "frame", "holds"]
    cells = [
        [
            row.where,
            row.how,
            f"{row.planted_ms:.2f} ms",
            f"{row.recovered_ms:.2f} ms",
            f"{100 * row.error_share:+.2f} %",
            f"{row.moved_phase} {100 * row.moved_share:+.2f} %",
            f"{100 * row.unsummed_share:+.3f} %",
            row.frame,
            "yes" if row.holds else "NO",
        ]
        for row in rows
    ]
    return measuring.table(head, cells)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="+", choices=list(PHASE_OF), default=list(PHASE_OF), metavar="PLACE")
    parser.add_argument("--how", nargs="+", choices=["sleep", "busy"], default=["sleep", "busy"])
    parser.add_argument("--base", type=float, default=4.0, metavar="MS", help="stall of every place (4)")
    parser.add_argument("--extra", type=float, default=20.0, metavar="MS", help="stall of the place in question (20)")
    parser.add_argument("--steps", type=int, default=60, help="measured steps per run (60)")
    parser.add_argument("--rounds", type=int, default=1, help="runs per place; the median is shown (1)")
    parser.add_argument("--limit", type=float, default=300.0, help="seconds after which a run is ended (300)")
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    args = parser.parse_args()
    rows: list[Row] = []
    with tempfile.TemporaryDirectory(prefix="attribution-") as name:
        sizes = (args.steps, args.base, args.extra, Path(name), args.limit)
        for how in args.how:
            bases = [measure("nowhere", how, *sizes) for _ in range(args.rounds)]
            for where in args.only:
                print(f"attribution: {where}, {how}", file=sys.stderr)
                runs = [compare(where, how, base, measure(where, how, *sizes)) for base in bases]
                rows.append(middle(runs))
    measuring.show({"schema": 1, "rows": [asdict(row) for row in rows]}, as_text(rows), args.json)


if __name__ == "__main__":
    main()
