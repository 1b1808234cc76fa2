"""Other readers of traces beside this one, over the whole of each trace: what HolisticTraceAnalysis and TraceLens say.

python trace_witnesses.py [--hta PYTHON] [--tracelens GIT_DIRECTORY] [--traces FOLDER] [--json FILE]

`--hta` is the Python of an environment with HolisticTraceAnalysis; it reads the shared traces that have communication:
the part of it that kernels overlap. `--tracelens` is a clone of AMD-AGI/TraceLens, which keeps its own report
(gpu_timeline.csv) beside traces: the share of time in which a kernel runs, and in which communication alone does.
"""

from __future__ import annotations

import argparse
import csv
import io
import json
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import measuring
from msgspec.structs import replace

from autotune.derive import derive
from autotune.errors import UsageError
from autotune.trace.read import read
from autotune.trace.recording import recording

FOLDER = measuring.ROOT.parent / "shared" / "traces"
COMMUNICATES = ("hta-ddp-a100", "hta-dlrm-a100", "hta-sampled-rank0", "hta-sampled-rank1", "hta-torchrec-a100")
HTA = """
import json, logging, sys, warnings
warnings.simplefilter("ignore"); logging.disable(logging.CRITICAL)
from hta.trace_analysis import TraceAnalysis
analysis = TraceAnalysis(trace_files={0: sys.argv[1]}, trace_dir=sys.argv[2], include_last_profiler_step=True)
print(json.dumps(float(analysis.get_comm_comp_overlap(visualize=False).iloc[0, 1])))
"""


def ours(file: Path) -> measuring.Json:
    """Shares of the time from the first to the last work of the device; {"error"} where the trace is refused."""
    try:
        # Without its host a trace is one step.
        device = derive([recording(replace(read(file), host=()))]).devices[0]
    except UsageError as error:
        return {"error": str(error)}
    communication = device.communication_share or 0.0
    overlap = 1 - device.exposed_share / communication if communication else None
    return {"busy": device.busy_share, "exposed": device.exposed_share or 0.0, "overlap": overlap}


def hta(python: str, folder: Path) -> Iterator[measuring.Json]:
    for name in COMMUNICATES:
        with tempfile.TemporaryDirectory() as place:
            file = Path(place) / "trace.json.gz"
            shutil.copyfile(folder / f"{name}.json.gz", file)
            words = [python, "-c", HTA, str(file), place]
            ended = subprocess.run(words, capture_output=True, text=True, check=False)
            theirs = float(ended.stdout.splitlines()[-1]) / 100 if ended.returncode == 0 else None
            yield {"reader": "HTA", "trace": name, "overlap": (ours(file)["overlap"], theirs)}


def tracelens(clone: Path) -> Iterator[measuring.Json]:
    """Each trace with a report beside it."""

    def git(*words: str) -> bytes:
        return subprocess.run(["git", "--git-dir", clone, *words], capture_output=True, check=True).stdout

    files = git("ls-tree", "-r", "--name-only", "HEAD").decode().splitlines()
    for file in [one for one in files if one.endswith(".json.gz")]:
        report = f"{file.removesuffix('.json.gz')}_perf_report_csvs/gpu_timeline.csv"
        if report not in files:
            continue
        rows = csv.reader(io.StringIO(git("show", f"HEAD:{report}").decode()))
        share = {row[0]: float(row[2]) / 100 for row in rows if row[0] != "type"}
        try:
            data = git("show", f"HEAD:{file}")
        except subprocess.CalledProcessError:
            yield {"reader": "TraceLens", "trace": file, "error": "not in the clone"}
            continue
        with tempfile.NamedTemporaryFile(suffix=".json.gz") as copy:
            copy.write(data)
            copy.flush()
            found = ours(Path(copy.name))
        if "error" in found:
            yield {"reader": "TraceLens", "trace": file, "error": found["error"].replace(copy.name, file)}
            continue
        busy = share["computation_time"] + share["exposed_comm_time"]
        exposed = (found["exposed"], share["exposed_comm_time"])
        yield {"reader": "TraceLens", "trace": file, "busy": (found["busy"], busy), "exposed": exposed}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--hta", metavar="PYTHON")
    parser.add_argument("--tracelens", type=Path, metavar="GIT_DIRECTORY")
    parser.add_argument("--traces", type=Path, default=FOLDER)
    parser.add_argument("--json", type=Path)
    args = parser.parse_args()
    rows = [*(hta(args.hta, args.traces) if args.hta else ()), *(tracelens(args.tracelens) if args.tracelens else ())]
    if not rows:
        print("trace_witnesses: no reader was given, or its traces are not there", file=sys.stderr)
        raise SystemExit(2)
    table = []
    for row in rows:
        for name in ("busy", "exposed", "overlap"):
            if name in row:
                mine, theirs = row[name]
                off = "-" if mine is None or theirs is None else f"{100 * (mine - theirs):+.2f}"
                said = ("-" if value is None else f"{value:.2%}" for value in (mine, theirs))
                table.append([row["reader"], row["trace"], name, *said, off])
        if "error" in row:
            table.append([row["reader"], row["trace"], row["error"], "-", "-", "-"])
    print(measuring.table(["reader", "trace", "share", "ours", "theirs", "points"], table))
    if args.json:
        args.json.write_text(json.dumps(rows, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
