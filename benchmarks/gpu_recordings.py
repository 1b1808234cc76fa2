"""Saves the Recordings of gpu.py's rows as fixtures: compressed, without folders of the machine, beside a README.

Needs no GPU. `<script>.json.gz` is the diagnosis of a script, `<script>-whole.json.gz` a run of it that was probed over
all steps that it timed itself. times.json has those times, and those of scripts that ran without the probe, as they are
and repaired: milliseconds per step by CUDA events.
"""

from __future__ import annotations

import argparse
import gzip
import json
import re
from collections.abc import Sequence
from pathlib import Path

import measuring

FOLDER = measuring.ROOT / "fixtures" / "recordings"
PACKAGES = re.compile(r"/[^\"\s]*?/(?:site|dist)-packages/")
STANDARD_LIBRARY = re.compile(r"/[^\"\s]*?/lib/python3\.\d+/")
SUFFIXES = {"diagnosed": "", "probed": "-whole"}


def anonymous(recording: measuring.Json, hidden: Sequence[str]) -> bytes:
    """The Recording as JSON, without folders of the machine: those of its script, of packages and `hidden`."""
    process = recording["process"]
    text = json.dumps(recording, separators=(",", ":"))
    folders = {str(Path(process["main_file"]).parent): "/run", str(Path(process["executable"]).parents[1]): "/env"}
    for path, name in {**folders, **dict.fromkeys(hidden, "/env/site-packages")}.items():
        text = text.replace(path, name)
    text = PACKAGES.sub("/env/site-packages/", text)
    return STANDARD_LIBRARY.sub("/env/lib/python3/", text).encode()


def readme(rows: dict[str, measuring.Json], times: dict[str, float], commands: Sequence[str]) -> str:
    head = ["recording", "device", "torch", "steps", "marks", "profiled steps", "kernels", "the script's own step"]
    table, made = [], set()
    for name, recording in rows.items():
        device, kernels = recording["device"], recording["kernels"] or {"steps": 0, "rows": [], "launches": []}
        launches = sum(kernels["rows"][launch[0]]["kind"] == "kernel" for launch in kernels["launches"])
        counts = (recording["window"]["steps"], len(recording["window"].get("device_clock", ())), kernels["steps"])
        own = f"{times[name]:.2f} ms" if name in times else ""
        software = recording["software"]
        made.add(f"Python {'.'.join(map(str, recording['process']['python']))}, torch {software['torch']}")
        numbers = map(str, (*counts, launches))
        table.append([name, f"{device['name']}, {device['capability']}", software["torch"], *numbers, own])
    typed = "\n".join(f"    {command}" for command in commands)
    return (
        "# Recordings of runs on GPUs\n\nThe scripts are in `benchmarks/scripts/gpu/`; made with "
        f"{'; '.join(sorted(made))} by\n\n{typed}\n\nThe tests replay them. What they say: docs/gpu.md.\n\n"
        f"{measuring.table(head, table)}\n"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("rows", nargs="+", type=Path, help="folders of rows that gpu.py wrote")
    parser.add_argument("--also", action="append", default=[], metavar="NAME=FILE", help="a Recording of another run")
    parser.add_argument("--hide", action="append", default=[], metavar="FOLDER", help="one of packages, to be renamed")
    parser.add_argument("--command", action="append", default=[], help="what was typed, for the README")
    parser.add_argument("--output", type=Path, default=FOLDER)
    args = parser.parse_args()
    args.output.mkdir(parents=True, exist_ok=True)
    found: dict[str, measuring.Json] = {}
    probed: dict[str, float] = {}
    native: dict[str, float] = {}
    for path in sorted(path for folder in args.rows for path in folder.glob("*.json")):
        kind, case, *repair = path.stem.split("-")[:-1]
        row = json.loads(path.read_text(encoding="utf-8"))
        if "failed" in row:
            continue
        if kind == "native":
            native["-".join((case, *repair))] = row["device_ms"]
            continue
        name = f"{case}{SUFFIXES[kind]}"
        (found[name],) = row["recordings"]
        if "device_ms" in row.get("own", ()):
            probed[name] = row["own"]["device_ms"]
    for name, _, file in (text.partition("=") for text in args.also):
        found[name] = json.loads(Path(file).read_text(encoding="utf-8"))
    found = dict(sorted(found.items()))
    for name, recording in found.items():
        data = gzip.compress(anonymous(recording, args.hide), mtime=0)
        (args.output / f"{name}.json.gz").write_bytes(data)
    times = json.dumps({"probed": probed, "native": native}, indent=2)
    (args.output / "times.json").write_text(f"{times}\n", encoding="utf-8")
    (args.output / "README.md").write_text(readme(found, probed, args.command), encoding="utf-8")


if __name__ == "__main__":
    main()
