"""Traces of torch.profiler from public repositories, whose authors never heard of autotune: what `diagnose` says.

python stranger_traces.py --clones FOLDER [--json FILE]

FOLDER has a clone of each repository of stranger_traces.toml, named `owner+name`, with the commit that is named there.
Each trace is given to `autotune diagnose --trace` in a process of its own. It ends with a report, in which the device's
busy and idle shares add up to 1, or with an error that says what the file lacks; anything else is a crash. Nobody has
judged what the reports say.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Iterator
from pathlib import Path

import measuring

LIST = Path(__file__).with_suffix(".toml")
LIMIT_S = 300.0
REFUSED = 2
"""The exit code for a file that is refused."""

CLOSE = 1e-6


def content(clone: Path, commit: str, path: str) -> bytes | None:
    """A file of a commit; None where the clone lacks it."""
    words = ["git", "-C", str(clone), "show", f"{commit}:{path}"]
    ended = subprocess.run(words, capture_output=True, check=False)
    return ended.stdout if ended.returncode == 0 else None


def outcome(data: bytes, name: str) -> measuring.Json:
    """What became of one trace: "report", "refused" or "crash", with its words."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / name
        file.write_bytes(data)
        words = [sys.executable, "-m", "autotune", "diagnose", "--format", "json", "--trace", str(file)]
        ended = measuring.run(words, cwd=Path(folder), environ=os.environ, limit_s=LIMIT_S)
        if ended.code == REFUSED:
            said = ended.err.splitlines()[0].replace(str(file), name) if ended.err else ""
            return {"outcome": "refused", "said": said, "seconds": ended.wall_s}
        if ended.code != 0:
            return {"outcome": "crash", "said": ended.err.strip().splitlines()[-1:], "code": ended.code}
        found = json.loads(ended.out)
    device = found["devices"][0]
    whole = device["busy_share"] + sum(part["share"] for part in device["idle"])
    row = {
        "step_ms": device["step_ms"],
        "busy": device["busy_share"],
        "exposed": device["exposed_share"],
        "bound": found["verdict"]["bound"],
        "said": [one["rule"] for one in found["findings"]],
        "seconds": ended.wall_s,
    }
    # A trace of a device alone has nothing to say of idle time.
    is_whole = not device["idle"] or abs(whole - 1) < CLOSE
    return {"outcome": "report", **row} if is_whole else {"outcome": "crash", "said": [f"shares add up to {whole}"]}


def rows(clones: Path) -> Iterator[measuring.Json]:
    """A row for each trace of the list."""
    for one in tomllib.loads(LIST.read_text())["repository"]:
        clone = clones / one["name"].replace("/", "+")
        for path in one["paths"]:
            data = content(clone, one["commit"], path)
            found = {"outcome": "not in the clone"} if data is None else outcome(data, Path(path).name)
            yield {"repository": one["name"], "commit": one["commit"], "path": path, **found}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--clones", type=Path, required=True)
    parser.add_argument("--json", type=Path)
    args = parser.parse_args()
    found = []
    for row in rows(args.clones):
        found.append(row)
        share = f"{row['busy']:.1%} busy, {row['step_ms']:.1f} ms" if "busy" in row else ""
        print(row["outcome"], row["repository"], row["path"], share, row.get("said", ""), flush=True)
    counts = {kind: sum(row["outcome"] == kind for row in found) for kind in {row["outcome"] for row in found}}
    print(f"{len(found)} traces of {len({row['repository'] for row in found})} repositories: {counts}")
    if args.json:
        args.json.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
    raise SystemExit(counts.get("crash", 0) > 0)


if __name__ == "__main__":
    main()
