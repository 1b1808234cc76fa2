"""Diagnoses real scripts, and verifies the patches that it proposes: predicted and measured side by side.

python benchmarks/verify_corpus.py --corpus FOLDER --cases ID ... [--budget 90s] [--out FOLDER] [--for 480]

`--corpus` is as in apply_corpus.py. Each case runs in a fresh folder: diagnose, then verify its patch; where that is
nothing without leave to alter what is learned, with `--allow altering`. With `--out FOLDER` every case is kept
there at once, and a later call goes on where this one ended; `--for` begins no case that may end after so many seconds.
"""

from __future__ import annotations

import argparse
import json
import shlex
import sys
import tempfile
import time
from collections.abc import Sequence
from functools import partial
from pathlib import Path

import apply_corpus
import corpus
import measuring

from autotune.model.rule import Effect

NOTHING = "this patch writes nothing"
ALTERING = ("--allow", Effect.ALTERING.value)


def measure(name: str, given: argparse.Namespace) -> measuring.Json:
    """One case: {"id", "predicted", "verified", "allow", "why"}; what could not be had is None."""
    nothing = {"id": name, "verified": None, "allow": ""}
    with tempfile.TemporaryDirectory(prefix=f"verify-{name}-") as place:
        folder = Path(place) / "run"
        case = apply_corpus.plain(corpus.prepared(given.corpus, name, folder), folder)
        options = [*case.options, *shlex.split(given.options)]
        document, ended = measuring.diagnose(case.argv, options, cwd=case.cwd, environ=case.environ, limit_s=300)
        if document is None:
            return {**nothing, "why": f"not diagnosed: {measuring.failure(ended)}"}
        if not document["patch"]:
            return {**nothing, "why": "no patch"}
        asked = ["--budget", given.budget, "--patch", document["patch"], *options]
        allow: Sequence[str] = ()
        ended = verified(case, asked)
        if NOTHING in ended.err:
            allow = ALTERING
            ended = verified(case, [*asked, *allow])
    if not ended.out:
        return {**nothing, "allow": " ".join(allow[1:]), "why": measuring.failure(ended)}
    return {**nothing, "verified": json.loads(ended.out), "allow": " ".join(allow[1:]), "why": ""}


def verified(case: corpus.Case, options: Sequence[str]) -> measuring.Ended:
    arguments = ["verify", "--format", "json", "--quiet", *options, "--", *case.argv]
    return apply_corpus.autotune(arguments, case, limit_s=600)


HEAD = ("case", "changes", "allow", "predicted", "verified", "95 % interval", "verdict", "losses", "resume", "why")


def row(result: measuring.Json) -> tuple[str, ...]:
    found = result["verified"]
    if found is None:
        return (result["id"], "", result["allow"], *[""] * 6, result["why"])
    gain = found["predicted"]
    return (
        result["id"],
        " ".join(f"{one['setting']}={one['new']}" for one in found["changes"]),
        result["allow"],
        predicted(gain) if gain else "none",
        f"{found['speedup']:.2f}",
        f"{found['low']:.2f}-{found['high']:.2f}",
        found["verdict"].replace("_", " "),
        found["losses"]["result"].replace("_", " "),
        found["resume"]["result"].replace("_", " "),
        found["why"] or "",
    )


def predicted(gain: measuring.Json) -> str:
    """The speedup with its range; the range alone where a part of it is a bound."""
    range_ = f"{gain['low']:.2f}-{gain['high']:.2f}"
    return f"({range_})" if gain["basis"] == "bound" else f"{gain['speedup']:.2f} ({range_})"


def kept(given: argparse.Namespace) -> list[measuring.Json]:
    """The cases in order, each kept or measured; those that the time does not hold are left out."""
    results, longest_s, began = [], 0.0, time.monotonic()
    for name in given.cases:
        is_new = given.out is None or not (given.out / f"{name}.json").exists()
        if is_new and given.for_s is not None and time.monotonic() - began + longest_s > given.for_s:
            continue
        start = time.monotonic()
        results.append(measuring.kept(given.out, name, partial(measure, name, given)))
        longest_s = max(longest_s, time.monotonic() - start)
        print(" | ".join(row(results[-1])), file=sys.stderr, flush=True)
    return results


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--corpus", type=Path, required=True, metavar="FOLDER", help="folder with prepare.sh")
    parser.add_argument("--cases", nargs="+", required=True, metavar="ID")
    parser.add_argument("--budget", default="90s", help="of each verification")
    parser.add_argument("--out", type=Path, metavar="FOLDER", help="keep each case here, and use what is kept")
    parser.add_argument("--for", dest="for_s", type=float, help="begin no case that may end after so many seconds")
    parser.add_argument("--options", default="", help="more options of both verbs: --options='--no-lock'")
    parser.add_argument("--format", choices=("text", "json"), default="text")
    given = parser.parse_args()
    results = kept(given)
    measuring.show({"cases": results}, measuring.table(HEAD, [row(one) for one in results]), given.format == "json")


if __name__ == "__main__":
    main()
