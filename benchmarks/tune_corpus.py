"""Tunes real scripts, applies what won, and verifies the patched files against those from before.

python benchmarks/tune_corpus.py --corpus FOLDER --cases ID ... [--budget 5m] [--verify 90s] [--out FOLDER] [--for 480]

`--corpus` is as in apply_corpus.py. Each case runs in a fresh folder: tune; that no file changed is asked; apply --yes;
that nothing but the edits changed is asked; verify, which takes the files from before the patch from the journal. With
`--out FOLDER` every case is kept there at once, and a later call goes on where this one ended; `--for` begins no case
that may end after so many seconds.
"""

from __future__ import annotations

import argparse
import json
import math
import shlex
import sys
import tempfile
import time
from functools import partial
from pathlib import Path

import apply_corpus
import corpus
import measuring

BATCH = ("loader.batch_size", "train.accumulation_steps")


def measure(name: str, given: argparse.Namespace) -> measuring.Json:
    """One case: {"id", "tune", "changed", "diff", "stray", "verified", "why"}; what could not be had is None."""
    with tempfile.TemporaryDirectory(prefix=f"tune-{name}-") as place:
        folder = Path(place) / "run"
        case = apply_corpus.plain(corpus.prepared(given.corpus, name, folder), folder)
        options = [*case.options, *shlex.split(given.options)]
        before = apply_corpus.files(folder.resolve())
        ended = searched(case, [*options, "--budget", given.budget])
        tuned = apply_corpus.files(folder.resolve())
        result: measuring.Json = {
            "id": name,
            "tune": None,
            "changed": [],
            "diff": [],
            "stray": [],
            "verified": None,
            "why": "",
        }
        if not ended.out:
            return {**result, "why": f"not tuned: {measuring.failure(ended)}"}
        result["tune"] = tune = json.loads(ended.out)
        result["changed"] = [path.name for path in apply_corpus.changed(before, tuned)]
        if not tune["patch"]:
            return result
        return {**result, **applied(case, tune["patch"], folder.resolve(), [*options, "--budget", given.verify])}


def searched(case: corpus.Case, options: list[str]) -> measuring.Ended:
    arguments = ["tune", "--format", "json", "--quiet", *options, "--", *case.argv]
    return apply_corpus.autotune(arguments, case, limit_s=900)


def applied(case: corpus.Case, patch: str, folder: Path, options: list[str]) -> measuring.Json:
    """The patch in the files: its lines, what else changed, and what verify says of it."""
    plan = apply_corpus.planned(patch, (), case)
    before = apply_corpus.files(folder)
    ended = apply_corpus.autotune(["apply", patch, "--yes"], case)
    after = apply_corpus.files(folder)
    changed = apply_corpus.changed(before, after)
    found = {
        "diff": [line for path in changed for line in apply_corpus.diff(before.get(path, b""), after.get(path, b""))],
        "stray": apply_corpus.stray(before, after, apply_corpus.spans(plan)),
    }
    if ended.code != 0:
        return {**found, "why": f"not applied: {measuring.failure(ended)}"}
    words = shlex.split(plan.command) if plan.command else case.argv
    ended = apply_corpus.autotune(["verify", "--format", "json", "--quiet", *options, "--", *words], case, limit_s=600)
    if not ended.out:
        return {**found, "why": f"not verified: {measuring.failure(ended)}"}
    return {**found, "verified": json.loads(ended.out)}


HEAD = ("case", "trials", "seconds", "changes", "proof", "verify", "losses", "global batch", "files", "why")


def row(result: measuring.Json) -> tuple[str, ...]:
    tune, found = result["tune"], result["verified"]
    if tune is None:
        return (result["id"], *[""] * (len(HEAD) - 2), result["why"])
    is_good = not result["changed"] and not result["stray"]
    return (
        result["id"],
        str(len(tune["trials"])),
        f"{tune['spent_s']:.0f}",
        " ".join(f"{name.rpartition('.')[2]}={value}" for name, value in tune["changes"].items()) or "keep",
        interval(tune["measured"]),
        f"{interval(found)} {found['verdict'].replace('_', ' ')}" if found else "",
        found["losses"]["result"].replace("_", " ") if found else "",
        global_batch(tune),
        "as asked" if is_good else " ".join([*result["changed"], *result["stray"]]),
        result["why"] or (tune["measured"] or {}).get("why") or " ".join(tune["notes"]),
    )


def interval(found: measuring.Json | None) -> str:
    return f"{found['speedup']:.2f} ({found['low']:.2f}-{found['high']:.2f})" if found else ""


def global_batch(tune: measuring.Json) -> str:
    """The product of micro-batch and accumulation before and after, where they are searched."""
    now = {name: value for axis in tune["space"] for name, value in axis["points"][axis["current"]].items()}
    if not set(BATCH) <= set(now):
        return ""
    before, after = (math.prod(each[name] for name in BATCH) for each in (now, {**now, **tune["changes"]}))
    return "unchanged" if before == after else f"{before} -> {after}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--corpus", type=Path, required=True, metavar="FOLDER", help="folder with prepare.sh")
    parser.add_argument("--cases", nargs="+", required=True, metavar="ID")
    parser.add_argument("--budget", default="5m", help="of each search (5m)")
    parser.add_argument("--verify", default="90s", help="budget of each verification (90s)")
    parser.add_argument("--out", type=Path, metavar="FOLDER", help="keep each case here, and use what is kept")
    parser.add_argument("--for", dest="for_s", type=float, default=math.inf, help="seconds, about")
    parser.add_argument("--options", default="", help="more options of both verbs: --options='--no-lock'")
    parser.add_argument("--format", choices=("text", "json"), default="text")
    given = parser.parse_args()
    began, longest_s, results = time.monotonic(), 0.0, []
    for name in given.cases:
        is_new = given.out is None or not (given.out / f"{name}.json").exists()
        if is_new and time.monotonic() - began + longest_s > given.for_s:
            continue
        start = time.monotonic()
        results.append(measuring.kept(given.out, name, partial(measure, name, given)))
        longest_s = max(longest_s, time.monotonic() - start)
        print(" | ".join(row(results[-1])), file=sys.stderr, flush=True)
    measuring.show({"cases": results}, measuring.table(HEAD, list(map(row, results))), given.format == "json")


if __name__ == "__main__":
    main()
