"""Real GPU traces: what a report says of each, beside what another reader said; and the cost of a large one.

python -m traces [--traces FOLDER] [--large FILE] [--json FILE]

FOLDER has traces and truth.json: step time, busy share, exposed communication and idle time in the DataLoader, by a
reader that shares no code with this one. `--large` times the whole report of one file in a fresh process, with its peak
memory. A third table holds the prediction of "no wait" from one capture against another capture of the same training
with four workers.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import measuring

FOLDER = measuring.ROOT.parent / "shared" / "traces"
PAIRS = (
    ("kineto-resnet50-workers0", "kineto-resnet50-workers4"),
    ("kineto-resnet50-profiler-api-workers0", "kineto-resnet50-workers4"),
)
ROWS = (
    ("step ms", "step_ms", lambda device: device["step_ms"]),
    ("busy", "kernel_busy_share", lambda device: device["busy_share"]),
    ("exposed", "exposed_communication_share", lambda device: device["exposed_share"]),
    (
        "idle in loader",
        "idle_in_dataloader_share",
        lambda device: sum(part["share"] for part in device["idle"] if part["kind"] == "data_wait"),
    ),
)


def report(*files: Path) -> dict:
    """The JSON report of traces; {"error": its words} where they are refused."""
    with tempfile.TemporaryDirectory() as folder:
        words = [sys.executable, "-m", "autotune", "diagnose", "--format", "json", "--trace", *map(str, files)]
        ended = subprocess.run(words, cwd=folder, capture_output=True, text=True, env=dict(os.environ), check=False)
    if ended.returncode == 0:
        return json.loads(ended.stdout)
    return {"error": ended.stderr.strip().splitlines()[0].replace(str(files[0]), files[0].name)}


def row(name: str, truth: dict, found: dict) -> dict:
    """Of each quantity ours, theirs and the difference; and the first two findings."""
    if "error" in found:
        return {"trace": name, "error": found["error"]}
    values = {}
    for title, key, of in ROWS:
        ours, theirs = of(found["devices"][0]), truth[key]
        off = ours / theirs - 1 if title == "step ms" else ours - theirs
        values[title] = {"ours": ours, "theirs": theirs, "off": off}
    said = [f"{one['rule']}: {one['message']}" for one in found["findings"]]
    return {"trace": name, **values, "bound": found["verdict"]["bound"], "said": said}


def large(file: Path) -> dict:
    """Seconds and peak memory of a report in a fresh process."""
    started = time.monotonic()
    found = report(file)
    peak = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 1024
    size = file.stat().st_size / 1e6
    return {
        "file": file.name,
        "megabytes": size,
        "seconds": time.monotonic() - started,
        "peak_mib": peak,
        **_error(found),
    }


def _error(found: dict) -> dict:
    return {"error": found["error"]} if "error" in found else {}


def pair(before: dict, after: dict) -> dict:
    """Removing the loader's wait from one capture, beside the other one's step."""
    device = before["devices"][0]
    waited = sum(part["share"] for part in device["idle"] if part["kind"] == "data_wait")
    predicted, seen = device["step_ms"] * (1 - waited), after["devices"][0]["step_ms"]
    return {"now_ms": device["step_ms"], "predicted_ms": predicted, "seen_ms": seen, "off": predicted / seen - 1}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--traces", type=Path, default=FOLDER)
    parser.add_argument("--large", type=Path)
    parser.add_argument("--json", type=Path)
    given = parser.parse_args()
    truths = json.loads((given.traces / "truth.json").read_text())
    found = {name: report(given.traces / f"{name}.json.gz") for name in truths}
    rows = [row(name, truth, found[name]) for name, truth in truths.items()]
    for one in rows:
        print(one["trace"], one.get("error", ""))
        for title, _, _ in ROWS if "error" not in one else ():
            value = one[title]
            print(f"  {title:<15}{value['ours']:>10.4f}{value['theirs']:>10.4f}{value['off']:>+9.4f}")
        for said in one.get("said", ())[:2]:
            print("  said:", said)
    pairs = [{"before": a, "after": b, **pair(found[a], found[b])} for a, b in PAIRS if a in found and b in found]
    for one in pairs:
        print(
            f"{one['before']}: {one['now_ms']:.0f} ms, without the wait {one['predicted_ms']:.0f} ms predicted, "
            f"{one['seen_ms']:.0f} ms seen in {one['after']} ({one['off']:+.0%})"
        )
    costs = [large(given.large)] if given.large else []
    for one in costs:
        print(f"{one['file']}: {one['megabytes']:.0f} MB in {one['seconds']:.1f} s, {one['peak_mib']:.0f} MiB at most")
    if given.json:
        given.json.write_text(json.dumps({"traces": rows, "pairs": pairs, "large": costs}, indent=1) + "\n")


if __name__ == "__main__":
    main()
