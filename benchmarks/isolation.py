"""What the kernel layer costs beside the hooks alone: start-up, steps and the whole command, on two scripts.

Each pair diagnoses one script twice, with overlays of the kernel and with AUTOTUNE_ISOLATION=hooks, in the order
A B B A. Ratios (kernel / hooks) have a 95 % bootstrap interval. Before the pairs each layer runs once unmeasured.
"""

from __future__ import annotations

import argparse
import os
import shutil
import sys
import tempfile
from pathlib import Path

import measuring

from autotune.collect.isolation import HOOKS, KERNEL, SWITCH

CASES = {
    "tokenises in __getitem__": measuring.ROOT / "fixtures" / "scripts" / "tokenise_in_getitem.py",
    "saves every fifth step": measuring.SCRIPTS / "saving.py",
}
FIGURES = ("first step, s", "step, ms", "command, s")


def measure(script: str, layer: str, folder: Path, limit_s: float) -> tuple[float, ...]:
    """Seconds to the first step, mean milliseconds of a step, seconds of the command. Ends at a run without them."""
    environ = {**os.environ, SWITCH: HOOKS if layer == HOOKS else ""}
    words = [sys.executable, script]
    options = ["--no-lock", "--no-what-ifs", "--steps", "60"]
    document, ended = measuring.diagnose(words, options, cwd=folder, environ=environ, limit_s=limit_s)
    if document is None:
        raise SystemExit(f"isolation: {script}: {measuring.failure(ended)}")
    held = document["run"]["isolation"]
    if held != layer:
        raise SystemExit(f"isolation: {script}: {held} held the files, not {layer}: {document['run']['isolation_why']}")
    return document["run"]["startup_s"], document["step"]["mean_ms"], ended.wall_s


def row(name: str, script: str, pairs: int, folder: Path, limit_s: float) -> list[list[str]]:
    """One row for each figure."""
    for layer in (KERNEL, HOOKS):
        measure(script, layer, folder, limit_s)
    both: list[tuple[tuple[float, ...], tuple[float, ...]]] = []
    for pair in range(pairs):
        order = (KERNEL, HOOKS) if pair % 2 == 0 else (HOOKS, KERNEL)
        done = {layer: measure(script, layer, folder, limit_s) for layer in order}
        both.append((done[KERNEL], done[HOOKS]))
        print(f"{name}: pair {pair + 1} of {pairs}", file=sys.stderr)
    rows = []
    for at, figure in enumerate(FIGURES):
        kernel, hooks = (measuring.interval([each[side][at] for each in both])[0] for side in (0, 1))
        ratio = measuring.interval([one[at] / other[at] for one, other in both])
        rows.append([name, figure, f"{kernel:.2f}", f"{hooks:.2f}", "{:.3f} ({:.3f} to {:.3f})".format(*ratio)])
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pairs", type=int, default=10, help="pairs of runs a script (10)")
    parser.add_argument("--limit", type=float, default=300.0, help="seconds after which a run is ended (300)")
    args = parser.parse_args()
    rows = []
    for name, script in CASES.items():
        # Below the home folder, not the folder for temporary files: what lies there is not covered.
        with tempfile.TemporaryDirectory(prefix="isolation-", dir=Path.home()) as folder:
            shutil.copy(script, folder)
            rows += row(name, script.name, args.pairs, Path(folder), args.limit)
    print(measuring.table(["script", "figure", "kernel", "hooks", "ratio"], rows))


if __name__ == "__main__":
    main()
