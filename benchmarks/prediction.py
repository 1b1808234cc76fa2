"""How far off the predicted gains are: recorded once, predicted for other settings, then these applied and timed.

Of each case one base is diagnosed, then all its settings are timed in one start of the script, taking turns, then the
other bases are diagnosed: drift cancels. Every third case is timed in another start: two tell the noise of what is
called true. From the facts of a diagnosis alone what-ifs predict the settings that were held out. What
was measured stays in `--folder`, a case is measured once, and `--budget` ends after the case that used it up: go on
with the same command. `--save` writes facts and times of the folder to one file; `--replay` predicts from such a file,
or from the recordings of a folder.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import measuring
from prediction_cases import Case, cases

sys.path.insert(0, str(measuring.ROOT))

from prediction_rows import choices, chosen_workers, details, predictions, summary, truth

from autotune.diagnose.diagnose import load
from autotune.model.evidence import Evidence, Value

SCRIPT = measuring.SCRIPTS / "loading.py"
TIMED = "timed.json"
READ = ("loader.", "step.", "replay.", "batch_curve.", "checkpoint.", "optimizer.", "train.", "run.num_", "machine.")
"""Beginnings of the facts that predictions read."""

ROUNDS = 2
REPEATED = 3
"""Every third case is timed in two starts, of half the rounds each."""


def environment() -> dict[str, str]:
    return {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONWARNINGS": "ignore"}


def record(case: Case, words: str, folder: Path, limit_s: float) -> str | None:
    """The folder of a diagnosis' run, relative to `folder`; None when there is no Recording."""
    command = [sys.executable, str(SCRIPT), "--kind", case.kind, words]
    document, ended = measuring.diagnose(command, ["--no-lock"], cwd=folder, environ=environment(), limit_s=limit_s)
    if document is None:
        print(f"prediction: {case.kind} {words}: {measuring.failure(ended)}", file=sys.stderr)
        return None
    return os.path.relpath(document["run"]["folder"], folder)


def start(case: Case, folder: Path, rounds: int, seconds: float, limit_s: float) -> measuring.Json:
    """Milliseconds per step of each round of one start, by settings."""
    result = folder / "start.json"
    result.unlink(missing_ok=True)
    argv = [sys.executable, str(SCRIPT), "--kind", case.kind, "--result", str(result), *case.settings]
    options = ["--rounds", str(rounds), "--seconds", str(seconds)]
    ended = measuring.run([*argv, *options], cwd=folder, environ=environment(), limit_s=limit_s)
    if ended.code != 0:
        print(f"prediction: {case.kind}: {measuring.failure(ended)}", file=sys.stderr)
        return {}
    times: measuring.Json = json.loads(result.read_text(encoding="utf-8"))
    return times


def measure(case: Case, folder: Path, starts: int, seconds: float, limit_s: float) -> None:
    """Times and recordings of a case, in a folder of its own."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "pyproject.toml").touch()
    rounds = ROUNDS // starts
    first, *others = (base.words for base in case.bases)
    runs = [record(case, first, folder, limit_s)]
    times = [start(case, folder, rounds, seconds, limit_s)]
    runs += [record(case, words, folder, limit_s) for words in others]
    times += [start(case, folder, rounds, seconds, limit_s) for _ in range(starts - 1)]
    row = {"starts": times, "runs": runs, "load_average": os.getloadavg()[0]}
    (folder / TIMED).write_text(json.dumps(row), encoding="utf-8")


def known(evidence: Evidence) -> measuring.Json:
    """The numbers that a what-if may look up, rounded, and the device: no text of this machine is kept."""
    facts: dict[str, dict[str, Any]] = {subject: dict(values) for subject, values in evidence.facts.items()}
    for (subject, name), setting in evidence.settings.items():
        facts.setdefault(subject, {}).setdefault(name, setting.value)
    return {s: {n: rounded(v) for n, v in values.items() if is_kept(n, v)} for s, values in facts.items()}


def is_kept(name: str, value: object) -> bool:
    return name == "device.type" or (isinstance(value, bool | int | float) and name.startswith(READ))


def rounded(value: Value) -> Value:
    return float(f"{value:.5g}") if isinstance(value, float) else value


def measured(folder: Path, chosen: Sequence[Case]) -> list[measuring.Json]:
    """One row per base that was measured: what was known of it, and the times of each start."""
    rows: list[measuring.Json] = []
    for case in chosen:
        if not (folder / case.name / TIMED).exists():
            continue
        timed = json.loads((folder / case.name / TIMED).read_text(encoding="utf-8"))
        for base, run in zip(case.bases, timed["runs"], strict=True):
            if run is not None:
                facts = known(load(str(folder / case.name / run), cwd=folder / case.name).evidence)
                named = {"kind": case.kind, "half": case.half}
                shared = {"starts": timed["starts"], "load_average": timed["load_average"]}
                rows.append({**named, "base": asdict(base), "facts": facts, **shared})
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    sorts = list(dict.fromkeys(case.sort for case in cases()))
    parser.add_argument("--only", nargs="+", choices=sorts, default=sorts, metavar="SORT")
    parser.add_argument("--half", choices=("fit", "held out"), help="cases of this half only")
    parser.add_argument("--folder", type=Path, help="measure what is not there yet")
    parser.add_argument("--budget", type=float, default=420.0, help="seconds after which no case is begun (420)")
    parser.add_argument("--seconds", type=float, default=1.0, help="of one setting in one round (1)")
    parser.add_argument("--limit", type=float, default=200.0, help="seconds after which a run is ended (200)")
    parser.add_argument("--save", type=Path, metavar="FILE", help="write facts and times")
    parser.add_argument("--replay", type=Path, metavar="FILE", help="predict from a saved file; measure nothing")
    parser.add_argument("--details", action="store_true", help="print every prediction")
    args = parser.parse_args()
    chosen = [case for case in cases() if case.sort in args.only and args.half in (None, case.half)]
    if args.replay and args.replay.is_file():
        found = json.loads(args.replay.read_text(encoding="utf-8"))["measured"]
    else:
        folder = (args.replay or args.folder).resolve()
        end = time.monotonic() + (0.0 if args.replay else args.budget)
        for number, case in enumerate(chosen):
            if time.monotonic() < end and not (folder / case.name / TIMED).exists():
                measure(case, folder / case.name, 1 if number % REPEATED else 2, args.seconds, args.limit)
        found = measured(folder, chosen)
    if args.save:
        args.save.write_text(json.dumps({"schema": 1, "measured": found}) + "\n", encoding="utf-8")
    rows = predictions(found)
    print(truth(rows, [one["load_average"] for one in found]))
    for half in ("held out", "fit"):
        mine = [row for row in rows if row.half == half]
        print(f"\n{half}:\n", summary(mine), chosen_workers(choices(mine)), sep="\n\n")
    if args.details:
        print("", details(rows), sep="\n")


if __name__ == "__main__":
    main()
