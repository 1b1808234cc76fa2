"""Measures what a CPU can show of the claims that docs/claims.md judges.

python benchmarks/claims.py [--rounds 9] [--only 0.14 ...] [--format json]

Timed claims start both sides in turn in this process (A B B A ...): printed is how much faster the second one is, with
the 95 % bootstrap interval of the median over pairs. The others read a value off the installed libraries (torch,
transformers, trl). Nothing else should run meanwhile.

    python benchmarks/claims.py --format json > benchmarks/results/claims.json    # what docs/claims.md shows
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import measuring

sys.path.insert(0, str(Path(__file__).parent / "scripts"))

import claims_timed
import torch

Side = Callable[[], object]


@dataclass(frozen=True, slots=True)
class Shown:
    """One line of the table: claims, what was done, what came out."""

    claims: str
    what: str
    value: str


def seconds(side: Side) -> float:
    began = time.perf_counter()
    side()
    return time.perf_counter() - began


def ratios(one: Side, other: Side, rounds: int) -> list[float]:
    """How many times faster the second side was in each pair, after one run of each that is not counted."""
    one(), other()
    found = []
    for number in range(rounds):
        order = (one, other) if number % 2 == 0 else (other, one)
        took = {side: seconds(side) for side in order}
        found.append(took[one] / took[other])
    return found


def timed(claims: str, what: str, sides: tuple[Side, Side], rounds: int) -> Shown:
    middle, low, high = measuring.interval(ratios(*sides, rounds))
    return Shown(claims, what, f"{middle:.2f} times as fast ({low:.2f} to {high:.2f})")


def shown(only: Sequence[str], rounds: int) -> list[Shown]:
    """The lines that are wanted, all where `only` is empty. Raises SystemExit for a claim that no line shows."""
    # Workers that are spawned import this program again: what times them must not wait for these libraries.
    import claims_read

    every = {claim for claims, *_ in (*claims_timed.PAIRS, *claims_read.VALUES) for claim in claims.split(", ")}
    if unknown := sorted(set(only) - every):
        raise SystemExit(f"claims: nothing here shows {', '.join(unknown)}")

    def wanted(claims: str) -> bool:
        return not only or any(claim in only for claim in claims.split(", "))

    lines = [timed(claims, what, make(), rounds) for claims, what, make in claims_timed.PAIRS if wanted(claims)]
    return [*lines, *(Shown(claims, what, read()) for claims, what, read in claims_read.VALUES if wanted(claims))]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=9, help="pairs of each timed claim (9)")
    parser.add_argument("--only", nargs="+", default=[], metavar="CLAIM")
    parser.add_argument("--format", choices=("text", "json"), default="text")
    given = parser.parse_args()
    torch.set_num_threads(2)
    lines = shown(given.only, given.rounds)
    text = measuring.table(("claims", "what was done", "what came out"), [[s.claims, s.what, s.value] for s in lines])
    rows = [{"claims": s.claims.split(", "), "what": s.what, "value": s.value} for s in lines]
    measuring.show({"schema": 1, "rounds": given.rounds, "lines": rows}, text, given.format == "json")


if __name__ == "__main__":
    main()
