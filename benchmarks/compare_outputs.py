"""Whether two checkouts say the same: `python -m benchmarks.compare_outputs BEFORE AFTER --work FOLDER`.

Both read the same files with the Python that runs this. `check` reads each --tree in every format. Each --script is
diagnosed once, by BEFORE; then both load these runs, report them as text and JSON, and show the
patch (`apply --diff`). A JSON or SARIF output counts as "same but for texts" where it differs only in values that a
person reads; a text output has no such part. `--work` keeps all outputs for a look at them: before/, after/.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

from autotune.report import formats

TEXTS = {
    "message", "name", "summary", "note", "why", "why_not", "reason", "text", "markdown", "description",
    "shortDescription", "fullDescription", "help", "helpUri", "title", "what", "to_do", "meaning", "details", "content",
    "snippet", "manual", "doubt", "because", "remark", "verdict", "outlook", "useless", "right", "not_looked_at",
    "notes", "worth", "labels", "fingerprint", "fingerprints", "partialFingerprints", "version", "tool", "advice",
}  # fmt: skip
"""Keys whose values are read by a person, or made of such a text."""

RESULTS = ("same", "same but for texts", "differs", "refused by both", "refused by one")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("before", type=Path)
    parser.add_argument("after", type=Path)
    parser.add_argument("--work", type=Path, required=True, help="an empty folder for copies and outputs")
    parser.add_argument("--tree", type=Path, action="append", default=[], help="a folder to check")
    parser.add_argument("--script", type=Path, action="append", default=[], help="a script to diagnose")
    given = parser.parse_args()
    work = given.work.resolve()
    runs = recorded(given.before.resolve(), work, given.script)
    trees = [copied(tree.resolve(), work) for tree in given.tree]
    for name, checkout in (("before", given.before.resolve()), ("after", given.after.resolve())):
        (work / name).mkdir(exist_ok=True)
        for tree in trees:
            for form in formats("check"):
                write(work / name / f"check-{tree.name}.{form}", checkout, ["check", "--format", form, "."], tree)
        for run in runs:
            reported(checkout, run, work / name)
    report(work)


def recorded(before: Path, work: Path, scripts: list[Path]) -> list[Path]:
    """A project for each script, with the run in it that `before` has measured."""
    found = []
    for script in scripts:
        run, project = work / "runs" / script.stem, work / "project" / script.stem
        if not run.exists():
            shutil.rmtree(project, ignore_errors=True)
            project.mkdir(parents=True)
            (project / "pyproject.toml").write_text('[project]\nname = "compared"\n')
            shutil.copy(script, project)
            autotune(before, ["diagnose", script.name, "--steps", "60"], project)
            shutil.copytree(project, run, symlinks=True)
        if list(run.glob(".autotune/runs/*/run.json")):
            found.append(run)
    return found


def copied(tree: Path, work: Path) -> Path:
    """The tree as a folder of its own, so that no configuration above it counts."""
    to = work / "trees" / f"{tree.parent.name}-{tree.name}"
    if not to.exists():
        shutil.copytree(tree, to, symlinks=True, ignore=shutil.ignore_patterns("__pycache__", ".git", ".autotune"))
        (to / "pyproject.toml").write_text('[project]\nname = "compared"\n')
    return to


def reported(checkout: Path, run: Path, folder: Path) -> None:
    """The run as both outputs of diagnose and as a patch: in its own place, as it was recorded."""
    project = run.parent.parent / "project" / run.name
    shutil.rmtree(project, ignore_errors=True)
    shutil.copytree(run, project, symlinks=True)
    recording = next(project.glob(".autotune/runs/*"))
    for form in ("text", "json"):
        words = ["report", str(recording), "--format", form]
        write(folder / f"diagnose-{run.name}.{form}", checkout, words, project)
    write(folder / f"patch-{run.name}.text", checkout, ["apply", "--diff"], project)


def write(to: Path, checkout: Path, words: list[str], cwd: Path) -> None:
    """The output of a command, unless an earlier call wrote it: delete it to have it made anew."""
    if not to.exists():
        to.write_text(autotune(checkout, words, cwd))


def autotune(checkout: Path, words: list[str], cwd: Path) -> str:
    """What a command prints on stdout, without what every run has of its own; its last error line where it fails."""
    environ = {**os.environ, "PYTHONPATH": str(checkout), "COLUMNS": "100", "XDG_STATE_HOME": str(cwd.parent / "state")}
    ended = subprocess.run(
        [sys.executable, "-m", "autotune", *words], cwd=cwd, env=environ, capture_output=True, text=True, check=False
    )
    if ended.returncode not in (0, 1) or "Traceback" in ended.stderr:
        return f"FAILED {ended.returncode}: {ended.stderr[-2000:]}"
    said = (
        ended.stdout.replace(sys.executable, "PYTHON").replace(str(checkout), "CHECKOUT").replace(str(cwd), "PROJECT")
    )
    said = re.sub(r'"seconds": [\d.]+', '"seconds": 0', said)
    return re.sub(r"(?<=in )\d+(\.\d+)? m?s\b|\d+ (seconds?|minutes?) ago", "TIME", said)


def report(work: Path) -> None:
    """A line per kind of output, and the names of those that differ."""
    counts: dict[str, Counter[str]] = {}
    differing = []
    for old in sorted((work / "before").iterdir()):
        new = work / "after" / old.name
        result = compared(old.name, old.read_text(), new.read_text())
        kind = f"{old.name.partition('-')[0]} {old.suffix[1:]}"
        counts.setdefault(kind, Counter())[result] += 1
        if result in ("differs", "refused by one"):
            differing.append(f"{result}: {old.name}")
    print(f"{'output':<20} {'files':>6} " + " ".join(f"{result:>20}" for result in RESULTS))
    for kind, found in sorted(counts.items()):
        print(f"{kind:<20} {found.total():>6} " + " ".join(f"{found[result]:>20}" for result in RESULTS))
    print("\n".join(differing))


def compared(name: str, old: str, new: str) -> str:
    """One of RESULTS."""
    if old.startswith("FAILED") or new.startswith("FAILED"):
        return "refused by both" if old.startswith("FAILED") and new.startswith("FAILED") else "refused by one"
    if old == new:
        return "same"
    if name.endswith((".json", ".sarif", ".gitlab")):
        sides = [without_texts(json.loads(side)) for side in (old, new)]
        return "same but for texts" if sides[0] == sides[1] else "differs"
    return "differs"


def without_texts(value: Any) -> Any:
    """A JSON value without what a person reads."""
    if isinstance(value, dict):
        return {key: without_texts(one) for key, one in value.items() if key not in TEXTS}
    if isinstance(value, list):
        return [without_texts(one) for one in value]
    return round(value, 9) if isinstance(value, float) else value


if __name__ == "__main__":
    main()
