"""Checks real files without running them and scores what is said against labels.

`--files FOLDER` holds one folder per case id with the case's files. Labels are JSON, by case id: `kind` ("static" or
"runnable"), `expect`, `expect_gpu`, `silent` and `maybe` (lists of rule ids). A runnable case is only scored for what
must stay silent and for what was found: most of its rules need a run. A folder without a label counts as read or not.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import measuring

LIMIT_S = 60.0


@dataclass(frozen=True, slots=True)
class Row:
    """One case: what it was recognised as, and the rules that were found, missed, false and without a label.

    `needs_run` are the missed rules that check listed as needing a run.
    """

    id: str
    kind: str
    dialects: tuple[str, ...]
    notes: tuple[str, ...]
    found: tuple[str, ...] = ()
    missed: tuple[str, ...] = ()
    false: tuple[str, ...] = ()
    unlabelled: tuple[str, ...] = ()
    needs_run: tuple[str, ...] = ()
    failed: str = ""


def check(folder: Path) -> tuple[measuring.Json | None, measuring.Ended]:
    """`autotune check --format json` of this checkout on one folder; None when it printed no object."""
    argv = [sys.executable, "-m", "autotune", "check", "--all", "--format", "json", "--fail-on", "never", "."]
    environ = {**os.environ, "PYTHONPATH": str(measuring.ROOT)}
    ended = measuring.run(argv, cwd=folder, environ=environ, limit_s=LIMIT_S)
    try:
        return json.loads(ended.out), ended
    except ValueError:
        return None, ended


def score(name: str, label: measuring.Json, document: measuring.Json) -> Row:
    """What one case got right; without a label only what was recognised."""
    kind = label.get("kind", "unlabelled")
    fired = list(dict.fromkeys(finding["rule"] for finding in document["findings"]))
    expected = [*label.get("expect", ()), *(label.get("expect_gpu", ()) if kind == "runnable" else ())]
    missed = [rule for rule in expected if rule not in fired] if kind == "static" else []
    skipped = {row["rule"] for row in document["skipped"]}
    known = {*expected, *label.get("silent", ()), *label.get("maybe", ())}
    return Row(
        id=name,
        kind=kind,
        dialects=tuple(dict.fromkeys(each for one in document["bundles"] for each in one["dialects"])),
        notes=tuple(note["why"] for note in document["notes"]),
        found=tuple(rule for rule in expected if rule in fired),
        missed=tuple(missed),
        false=tuple(rule for rule in label.get("silent", ()) if rule in fired and rule not in expected),
        unlabelled=tuple(rule for rule in fired if label and rule not in known),
        needs_run=tuple(rule for rule in missed if rule in skipped),
    )


def measure(folder: Path, label: measuring.Json) -> Row:
    document, ended = check(folder)
    if document is None:
        return Row(folder.name, label.get("kind", "unlabelled"), (), (), failed=measuring.failure(ended))
    return score(folder.name, label, document)


HEAD = ("case", "kind", "dialects", "found", "missed", "false", "unlabelled", "needs a run", "notes")


def as_text(rows: Sequence[Row]) -> str:
    cells = [
        [
            row.id,
            row.kind,
            row.failed or " ".join(row.dialects) or "-",
            *(" ".join(each) for each in (row.found, row.missed, row.false, row.unlabelled, row.needs_run)),
            "; ".join(row.notes)[:60],
        ]
        for row in rows
    ]
    return f"{measuring.table(list(HEAD), cells)}\n\n{totals_text(rows)}"


def totals_text(rows: Sequence[Row]) -> str:
    labelled = [row for row in rows if row.kind == "static"]
    found, missed, false = (sum(len(getattr(row, name)) for row in labelled) for name in ("found", "missed", "false"))
    broken = [row.id for row in rows if row.failed]
    recognised = sum(bool(row.dialects) for row in rows)
    runnable = sum(len(row.false) for row in rows if row.kind == "runnable")
    return (
        f"{len(rows)} cases: {recognised} recognised, {len(broken)} failed {broken or ''}. "
        f"Labelled static: precision {share(found, found + false)} ({found} found, {false} false), "
        f"recall {share(found, found + missed)} ({missed} missed). Runnable: {runnable} false."
    )


def share(part: int, whole: int) -> str:
    return f"{100 * part / whole:.0f} %" if whole else "-"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--files", type=Path, required=True, metavar="FOLDER", help="one folder per case id")
    parser.add_argument("--labels", type=Path, required=True, metavar="FILE", help="labels, JSON")
    parser.add_argument("--only", nargs="+", default=[], metavar="ID")
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    args = parser.parse_args()
    labels = json.loads(args.labels.read_text(encoding="utf-8"))
    folders = sorted(one for one in args.files.iterdir() if one.is_dir() and (not args.only or one.name in args.only))
    rows = [measure(folder, labels.get(folder.name, {})) for folder in folders]
    measuring.show({"schema": 1, "cases": [asdict(row) for row in rows]}, as_text(rows), args.json)


if __name__ == "__main__":
    main()
