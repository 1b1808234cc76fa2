"""What the verdict of `autotune verify` says of stored pairs whose truth is known.

python benchmarks/verify_replay.py [FILE]

FILE (results/verify-pairs.jsonl) has one verification of `verify_aa.py` a line: the step time of each run of each pair,
in order, on the clock that the verification rested on, and the planted speedup. The pairs are judged as `verify` judges
them: all of them, and each 3, 5 and 8 neighbouring ones, which together count as one verification. Verdicts that depend
on more than the interval (files read from disk, disturbed runs on the wall clock) are not part of it.
"""

from __future__ import annotations

import json
import sys
from collections import Counter
from pathlib import Path

import measuring

from autotune.model.verified import Verdict
from autotune.verify.estimate import estimate
from autotune.verify.verdict import by_interval

PAIRS = measuring.ROOT / "benchmarks" / "results" / "verify-pairs.jsonl"
NUM_PAIRS = (None, 3, 5, 8)
HEAD = ("machine", "truth", "pairs", "verifications", *(kind.value.replace("_", " ") for kind in Verdict), "wrong",
        "interval holds truth")  # fmt: skip


def main() -> None:
    path = Path(sys.argv[1]) if len(sys.argv) > 1 else PAIRS
    rows = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    print(measuring.table(HEAD, [line for num in NUM_PAIRS for line in lines(rows, num)]))


def lines(rows: list[measuring.Json], num: int | None) -> list[tuple[str, ...]]:
    """The lines of the table for so many neighbouring pairs (None: all pairs)."""
    found = []
    for busy, truth in sorted({(row["busy"], row["truth"]) for row in rows}):
        of = [judged(row, num) for row in rows if (row["busy"], row["truth"]) == (busy, truth)]
        counts = sum(filter(None, of), Counter[str]())
        if not counts:
            continue
        size = sum(one is not None for one in of)
        shown = [f"{counts[key]:.1f}".removesuffix(".0") for key in (*Verdict, "wrong")]
        machine, pairs = "busy" if busy else "idle", str(num or "all")
        found.append((machine, f"{truth:.3g}", pairs, str(size), *shown, f"{counts['held'] / size:.0%}"))
    return found


def judged(row: measuring.Json, num: int | None) -> Counter[str] | None:
    """Shares of the verdicts of a verification's neighbouring pairs; None where it has fewer."""
    size, truth = len(row["before"]), row["truth"]
    begins = range(size - (num or size) + 1)
    shares: Counter[str] = Counter()
    for begin in begins:
        cut = slice(begin, begin + (num or size))
        found = estimate(row["before"][cut], row["after"][cut], row["looks"] if num is None else 1)
        said = by_interval(found)
        shares.update({said: 1, "wrong": said in wrong(truth), "held": found.low <= truth <= found.high})
    return Counter({key: count / len(begins) for key, count in shares.items()}) if begins else None


def wrong(truth: float) -> tuple[Verdict, ...]:
    """The verdicts that contradict the truth."""
    if truth == 1:
        return (Verdict.FASTER, Verdict.SLOWER)
    return (Verdict.NO_DIFFERENCE, Verdict.SLOWER if truth > 1 else Verdict.FASTER)


if __name__ == "__main__":
    main()
