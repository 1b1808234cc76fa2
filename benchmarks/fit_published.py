"""What `fit` says of steps whose peak somebody has published (fit_published.toml).

    python benchmarks/fit_published.py [--only litgpt]

A published "allocated" is compared with the peak of what is live (the parts of the need), one that is "reserved" or of
the "driver" with the middle of the interval. The verdict is for the card that it was measured on: a step that ran there
may not be said not to fit, and one that ran out of memory may not be said to fit.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import statistics
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
GIB = 2**30
CONTEXT = (350 * 2**20, 1400 * 2**20)
NCCL = (100 * 2**20, 1000 * 2**20)
"""What the ends of the interval have for CUDA's context, and on several cards for NCCL: autotune/catalogue/devices.py,
autotune/fit/memory_need.py."""


def row_name(run: dict[str, Any], samples: str) -> str:
    """By which it is chosen whether a row is kept aside."""
    shared = f" on {run['devices']} by {run['shard']}" if "shard" in run else ""
    return f"{run['source']}: {run['script'].removesuffix('.py')} {run['arguments']}{shared}, batch {samples}"


def is_kept_aside(run: dict[str, Any], samples: str) -> bool:
    chosen = run.get("kept_aside", False)
    if chosen == "sha1":
        return int(hashlib.sha1(row_name(run, samples).encode()).hexdigest(), 16) % 2 == 0
    return int(samples) in chosen if isinstance(chosen, list) else bool(chosen)


def answer(run: dict[str, Any]) -> dict[int, dict[str, Any]]:
    """The sizes of the answer, by micro-batch."""
    words = [sys.executable, "-m", "autotune", "fit", "--quiet", "--no-lock", "--format", "json", "--on", run["card"]]
    script = [str(HERE / "scripts" / "fit" / run["script"]), *run["arguments"].split()]
    sizes = ["--batch", ",".join(run["rows"])]
    sizes += ["--devices", str(run["devices"]), "--shard", run["shard"]] if "shard" in run else []
    done = subprocess.run([*words, *sizes, *script], capture_output=True, text=True, check=False, cwd=HERE.parent)
    if not done.stdout.startswith("{"):
        raise SystemExit(f"{run['script']} {run['arguments']}: exit {done.returncode}\n{done.stderr[-2000:]}")
    found = json.loads(done.stdout)
    if found["why_not"]:
        raise SystemExit(f"{run['script']} {run['arguments']}: {found['why_not']}")
    return {size["micro_batch"]: size for size in found["cards"][0]["sizes"]}


def span(run: dict[str, Any], size: dict[str, Any]) -> tuple[float, float]:
    """The ends of the interval for what was published: what torch counts has neither CUDA's context nor NCCL in it."""
    ends = (size["low_bytes"], size["high_bytes"])
    if run["of"] == "driver":
        return ends
    low, high = (end - CONTEXT[i] - (NCCL[i] if "shard" in run else 0) for i, end in enumerate(ends))
    return low, high


def live(run: dict[str, Any], size: dict[str, Any]) -> float:
    """The estimated peak of what is live at once. DDP's buckets are no part: they are as large as all gradients."""
    parts = size["parts_bytes"]
    return sum(parts.values()) + (parts["gradients"] if run.get("shard") == "ddp" else 0)


def print_names(runs: list[dict[str, Any]]) -> None:
    for run in runs:
        for samples in run["rows"]:
            print("kept aside" if is_kept_aside(run, samples) else "other     ", row_name(run, samples))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", default="", help="runs in whose rows' names this stands")
    parser.add_argument("--names", action="store_true", help="say which rows are kept aside, and run nothing")
    given = parser.parse_args()
    runs = tomllib.loads((HERE / "fit_published.toml").read_text("utf-8"))["run"]
    if given.names:
        print_names(runs)
        return
    errors: dict[bool, list[float]] = {True: [], False: []}
    inside, wrong = [], 0
    print("| source | step | published | estimated | error | says |\n|---|---|---|---|---|---|")
    for run in runs:
        names = {samples: row_name(run, samples) for samples in run["rows"]}
        if not any(given.only in name for name in names.values()):
            continue
        sizes = answer(run)
        for samples, published in run["rows"].items():
            size, aside = sizes[int(samples)], is_kept_aside(run, samples)
            name = f"{names[samples].replace(': ', ' | ', 1)}{' (kept aside)' if aside else ''}"
            low, high = span(run, size)
            ran = not isinstance(published, str)
            wrong += size["verdict"] == ("does not fit" if ran else "fits")
            if not ran:
                print(f"| {name} | out of memory | {low / GIB:.1f} GiB | | {size['verdict']} |", flush=True)
                continue
            is_allocated = run["of"] == "allocated"
            point = live(run, size) if is_allocated else (low + high) / 2
            error = point / published - 1
            errors[aside].append(error)
            inside.append(low <= published <= high)
            found = f"{point / GIB:.1f} GiB" if is_allocated else f"{low / GIB:.1f} to {high / GIB:.1f} GiB"
            print(f"| {name} | {published / GIB:.1f} GiB | {found} | {error:+.1%} | {size['verdict']} |", flush=True)
    for kept, found in errors.items():
        if found:
            name = "kept aside" if kept else "the others"
            middle = statistics.median(map(abs, found))
            worst = max(found, key=abs)
            print(f"\n{name}: {len(found)} rows, median of the absolute errors {middle:.1%}, worst {worst:+.1%}")
    print(f"the upper end and the lower one hold {sum(inside)} of {len(inside)}; wrong verdicts: {wrong}")


if __name__ == "__main__":
    main()
