"""What `fit` says of steps whose peak somebody has published (fit_published.toml).

    python benchmarks/fit_published.py [--only litgpt]

A published "allocated" is compared with the sum of the parts, one of the "driver" with the interval. The verdict is for
the card that it was measured on: a step that ran there may not be said not to fit, and one that ran out of memory may
not be said to fit.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
GIB = 2**30


def answer(run: dict[str, Any]) -> dict[int, dict[str, Any]]:
    """The sizes of the answer, by micro-batch."""
    words = [sys.executable, "-m", "autotune", "fit", "--quiet", "--no-lock", "--format", "json", "--on", run["card"]]
    script = [str(HERE / "scripts" / "fit" / run["script"]), *run["arguments"].split()]
    sizes = ["--batch", ",".join(run["rows"])]
    done = subprocess.run([*words, *sizes, *script], capture_output=True, text=True, check=False, cwd=HERE.parent)
    if not done.stdout.startswith("{"):
        raise SystemExit(f"{run['script']} {run['arguments']}: exit {done.returncode}\n{done.stderr[-2000:]}")
    found = json.loads(done.stdout)
    if found["why_not"]:
        raise SystemExit(f"{run['script']} {run['arguments']}: {found['why_not']}")
    return {size["micro_batch"]: size for size in found["cards"][0]["sizes"]}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", default="", help="runs whose source or arguments have this in them")
    only = parser.parse_args().only
    runs = tomllib.loads((HERE / "fit_published.toml").read_text("utf-8"))["run"]
    errors: dict[bool, list[float]] = {True: [], False: []}
    inside, wrong = [], 0
    print("| source | step | published | estimated | error | says |\n|---|---|---|---|---|---|")
    for run in runs:
        if only not in f"{run['source']} {run['script']} {run['arguments']}":
            continue
        sizes = answer(run)
        for samples, published in run["rows"].items():
            size = sizes[int(samples)]
            name = f"{run['source']} | {run['script'].removesuffix('.py')} {run['arguments']}, batch {samples}"
            parts = sum(size["parts_bytes"].values())
            ran = not isinstance(published, str)
            wrong += size["verdict"] == ("does not fit" if ran else "fits")
            if not ran:
                print(f"| {name} | out of memory | {parts / GIB:.1f} GiB | | {size['verdict']} |", flush=True)
                continue
            is_allocated = run["of"] == "allocated"
            low, high = (parts, size["high_bytes"]) if is_allocated else (size["low_bytes"], size["high_bytes"])
            point = parts if is_allocated else (low + high) / 2
            error = point / published - 1
            errors[run.get("kept_aside", False)].append(error)
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
