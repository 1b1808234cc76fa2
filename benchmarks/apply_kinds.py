"""Whether a patch makes a real script faster, for each kind of place that a value comes from.

python benchmarks/apply_kinds.py --corpus FOLDER [--kinds NAME ...] [--budget 90s] [--out FOLDER]

Each kind of apply_kinds.toml is a case of the corpus with a fault put in, in a git repository of its own: diagnose,
apply --yes, git diff (only the lines of the edits), `autotune verify` of the written patch, which says by starts that
take turns whether the step got faster, and diagnose again (the finding is gone). Beside it stands what was predicted.
Nothing else should run meanwhile. With `--out FOLDER` every kind is kept there at once, as in apply_corpus.py.
"""

from __future__ import annotations

import argparse
import json
import shlex
import tempfile
import tomllib
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import apply_corpus
import corpus
import measuring

KINDS: dict[str, Any] = tomllib.loads(Path(__file__).with_suffix(".toml").read_text(encoding="utf-8"))
GIT = ("git", "-c", "user.name=benchmark", "-c", "user.email=benchmark@localhost")


def planted(text: str, rows: Sequence[measuring.Json], given: Path) -> str:
    """`text` with every row's `old` as its `new`. Raises ValueError for one that is not there exactly once."""
    for row in rows:
        if text.count(row["old"]) != 1:
            raise ValueError(f"{row['file']} has {row['old']!r} {text.count(row['old'])} times")
        text = text.replace(row["old"], row["new"].replace("$CORPUS", str(given)))
    return text


def prepared(given: argparse.Namespace, kind: measuring.Json, folder: Path) -> corpus.Case:
    """The case with its faults, committed."""
    case = apply_corpus.plain(corpus.prepared(given.corpus, kind["case"], folder), folder)
    for name in {row["file"] for row in kind["plant"]}:
        rows = [row for row in kind["plant"] if row["file"] == name]
        path = folder / name
        path.write_text(planted(path.read_text(encoding="utf-8"), rows, given.corpus.resolve()), encoding="utf-8")
    (folder / ".gitignore").write_text(".case/\n__pycache__/\n", encoding="utf-8")
    for words in (("init", "-q"), ("add", "-A"), ("commit", "-q", "-m", "before")):
        git(words, case, folder)
    return replace(case, argv=tuple(kind.get("command", case.argv)))


def git(words: Sequence[str], case: corpus.Case, folder: Path) -> str:
    ended = measuring.run([*GIT, *words], cwd=folder, environ=case.environ, limit_s=60)
    if ended.code != 0:
        raise OSError(measuring.failure(ended))
    return ended.out


def diagnosed(case: corpus.Case, options: Sequence[str]) -> measuring.Json:
    document, ended = measuring.diagnose(
        case.argv, [*case.options, *options], cwd=case.cwd, environ=case.environ, limit_s=240
    )
    if document is None:
        raise OSError(measuring.failure(ended))
    return document


def measure(name: str, given: argparse.Namespace) -> measuring.Json:
    """One kind: its findings and steps before and after, the diff, and what verify says."""
    kind, options = KINDS[name], shlex.split(given.options)
    with tempfile.TemporaryDirectory(prefix=f"kind-{name}-") as place:
        folder = (Path(place) / "run").resolve()
        case = prepared(given, kind, folder)
        before = diagnosed(case, options)
        plan = apply_corpus.planned(before["patch"], (), case)
        old = apply_corpus.files(folder)
        applied = apply_corpus.autotune(["apply", before["patch"], "--yes"], case)
        new = apply_corpus.files(folder)
        lines = git(("diff", "-U0"), case, folder).splitlines()
        # Another diagnosis may leave another patch, which would be the last one, and verified instead.
        found = verified(case, given)
        after = diagnosed(case, options)
        return {
            "kind": name,
            "case": kind["case"],
            "rules": kind["rules"],
            "found": rules(before),
            "left": rules(after),
            "applied": "written" if applied.code == 0 else measuring.failure(applied),
            "written": [f"{one.setting} {one.old} -> {one.new}" for one in plan.chosen],
            "by_hand": [f"{one.setting} {one.old} -> {one.new}: {why}" for one, why in plan.left],
            "typed": plan.command,
            "stray": apply_corpus.stray(old, new, apply_corpus.spans(plan)),
            "diff": [line for line in lines if line[0] in "+-"],
            "step_ms": [step_ms(before), step_ms(after)],
            **found,
        }


def rules(document: measuring.Json) -> list[str]:
    return [finding["rule"] for finding in document["findings"]]


def step_ms(document: measuring.Json) -> float | None:
    return document["step"] and document["step"]["mean_ms"]


def verified(case: corpus.Case, given: argparse.Namespace) -> measuring.Json:
    """What `autotune verify` says of the written patch: {"verify": its object, or None} and why there is none."""
    words = ["verify", "--format", "json", "--quiet", "--budget", given.budget, *shlex.split(given.options)]
    ended = apply_corpus.autotune([*words, *case.options, "--", *case.argv], case, limit_s=480)
    try:
        return {"verify": json.loads(ended.out), "why": ""}
    except ValueError:
        return {"verify": None, "why": measuring.failure(ended)}


HEAD = ("kind", "case", "found", "gone", "written", "diff", "stray", "step ms", "predicted", "verified", "verdict")


def row(result: measuring.Json) -> list[str]:
    found = result["verify"]
    gone = [rule for rule in result["rules"] if rule in result["found"] and rule not in result["left"]]
    went, came = (sum(line[0] == sign and line[:3] != 3 * sign for line in result["diff"]) for sign in "-+")
    return [
        result["kind"],
        result["case"],
        " ".join(rule for rule in result["rules"] if rule in result["found"]) or "-",
        "yes" if gone == result["rules"] else " ".join(gone) or "NO",
        str(len(result["written"])),
        f"-{went} +{came}",
        " ".join(result["stray"]),
        " -> ".join("-" if value is None else f"{value:.0f}" for value in result["step_ms"]),
        speedup(found and found["predicted"]),
        speedup(found),
        f"{found['verdict']} {found['why'] or ''}".strip() if found else result["why"],
    ]


def speedup(found: measuring.Json | None) -> str:
    return "-" if found is None else f"{found['speedup']:.2f} ({found['low']:.2f} to {found['high']:.2f})"


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--corpus", type=Path, required=True, metavar="FOLDER", help="folder with prepare.sh")
    parser.add_argument("--kinds", nargs="+", choices=list(KINDS), default=list(KINDS))
    parser.add_argument("--budget", default="90s", help="of verify (90s)")
    parser.add_argument("--out", type=Path, metavar="FOLDER", help="keep each kind here, and use what is kept")
    parser.add_argument("--options", default="", help="more options of diagnose and verify: --options='--no-lock'")
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    return parser.parse_args()


def main() -> None:
    given = arguments()
    results = [measuring.kept(given.out, name, partial(measure, name, given)) for name in given.kinds]
    measuring.show({"schema": 1, "kinds": results}, measuring.table(HEAD, list(map(row, results))), given.json)


if __name__ == "__main__":
    main()
