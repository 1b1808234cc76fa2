"""Diagnoses real scripts with zero edits and scores what is said against labels.

Cases come from one of two places: `--corpus FOLDER`, which holds a program `prepare.sh ID DIR` that makes DIR ready and
leaves DIR/.case/command (one shell line) and DIR/.case/env (NAME=VALUE lines); or `--scripts FOLDER`, in which the case
ID is the script FOLDER/ID.py. Labels are JSON or TOML, by case id (see scoring.py). Each case runs in a fresh folder.
With `--out FOLDER` every result is kept there at once, and a later call goes on where this one ended.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shlex
import sys
import tempfile
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path

import measuring
import scoring

PYTHON = re.compile(r"[^\s=]*/(?:python|pypy)[\d.]*(?=\s|$)")
START_LIMIT_S = 120.0


@dataclass(frozen=True, slots=True)
class Case:
    """How to start one case: argv, its folder, environment, and options of diagnose that belong to it."""

    argv: tuple[str, ...]
    cwd: Path
    environ: Mapping[str, str]
    options: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Result:
    """One case: what diagnose printed (None without a report), wall seconds, and why there is none."""

    id: str
    document: measuring.Json | None
    wall_s: float
    outcome: str
    why: str = ""


def read_labels(path: Path) -> dict[str, measuring.Json]:
    """The labels that can be run: rows of another kind than "runnable" are left out."""
    text = path.read_text(encoding="utf-8")
    rows = tomllib.loads(text) if path.suffix == ".toml" else json.loads(text)
    return {name: row for name, row in rows.items() if row.get("kind", "runnable") == "runnable"}


def prepared(corpus: Path, name: str, folder: Path) -> Case:
    """Run the corpus' own set-up. Raises OSError when it fails or leaves no command."""
    argv = [str(corpus / "prepare.sh"), name, str(folder)]
    ended = measuring.run(argv, cwd=corpus, environ=os.environ, limit_s=START_LIMIT_S)
    if ended.code != 0:
        raise OSError(f"prepare.sh {name}: {measuring.failure(ended)}")
    command = (folder / ".case" / "command").read_text(encoding="utf-8").strip()
    lines = (folder / ".case" / "env").read_text(encoding="utf-8").splitlines()
    given = dict(line.split("=", 1) for line in lines if "=" in line)
    python = PYTHON.search(command)
    options = ("--python", python[0]) if python else ()
    return Case(("bash", "-c", command), folder, {**os.environ, **given}, options)


def script(folder: Path, name: str, cwd: Path, arguments: Sequence[str]) -> Case:
    """A script that is started by the Python that this benchmark runs in."""
    path = (folder / f"{name}.py").resolve()
    if not path.exists():
        raise OSError(f"there is no script {path}")
    return Case((sys.executable, str(path), *arguments), cwd, os.environ)


def diagnose(case: Case, name: str, options: Sequence[str], limit_s: float) -> Result:
    document, ended = measuring.diagnose(
        case.argv, [*case.options, *options], cwd=case.cwd, environ=case.environ, limit_s=limit_s
    )
    if document is None:
        outcome = "stopped" if ended.code is None else f"exit_{ended.code}"
        return Result(name, None, ended.wall_s, outcome, measuring.failure(ended))
    return Result(name, document, ended.wall_s, document["outcome"])


def measure(args: argparse.Namespace, name: str) -> Result:
    """Prepare one case in a fresh folder and diagnose it."""
    with tempfile.TemporaryDirectory(prefix=f"case-{name}-") as folder:
        cwd = Path(folder) / "run"
        try:
            if args.corpus:
                case = prepared(args.corpus, name, cwd)
            else:
                cwd.mkdir()
                case = script(args.scripts, name, cwd, shlex.split(args.arguments))
        except OSError as error:
            return Result(name, None, 0.0, "not_prepared", str(error))
        return diagnose(case, name, shlex.split(args.options), args.limit)


def chosen(labels: Mapping[str, measuring.Json], only: Sequence[str], skip: Sequence[str]) -> list[str]:
    """The case ids to run, in the labels' order. Raises SystemExit for an id that has no label."""
    unknown = sorted({*only, *skip} - set(labels))
    if unknown:
        raise SystemExit(f"corpus: no label for {', '.join(unknown)}; there are {', '.join(labels)}")
    return [name for name in labels if (not only or name in only) and name not in skip]


RULES = ("found", "missed", "false", "unlabelled", "undecided")


def as_text(results: Sequence[Result], scores: Sequence[scoring.Score]) -> str:
    head = ["case", "outcome", "step", "wall", "first", "hit", "largest gain", *RULES]
    cells = [
        [
            result.id,
            result.why or one.outcome,
            step_text(result),
            f"{result.wall_s:.0f} s",
            scoring.names(one.first) or "-",
            {None: "", True: "yes", False: "NO"}[one.first_hit],
            scoring.names(one.largest) or "-",
            *(scoring.names(getattr(one, name)) for name in RULES),
        ]
        for result, one in zip(results, scores, strict=True)
    ]
    return f"{measuring.table(head, cells)}\n\n{totals_text(scoring.totals(scores))}"


def step_text(result: Result) -> str:
    step = result.document and result.document["step"]
    return f"{step['steps']} x {step['mean_ms']:.0f} ms" if step else "-"


def totals_text(totals: Mapping[str, float | int | None]) -> str:
    def percent(name: str) -> str:
        value = totals[name]
        return "-" if value is None else f"{100 * value:.0f} %"

    return (
        f"{totals['diagnosed']} of {totals['cases']} cases diagnosed. "
        f"Precision {percent('precision')} ({totals['found']} found, {totals['false']} false), "
        f"recall {percent('recall')} ({totals['missed']} missed), first cause {percent('first_rate')}, "
        f"{totals['unlabelled']} findings without a label."
    )


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    source = parser.add_mutually_exclusive_group(required=True)
    source.add_argument("--corpus", type=Path, metavar="FOLDER", help="folder with prepare.sh")
    source.add_argument("--scripts", type=Path, metavar="FOLDER", help="folder with ID.py for each label")
    parser.add_argument("--labels", type=Path, required=True, metavar="FILE", help="labels, .json or .toml")
    parser.add_argument("--only", nargs="+", default=[], metavar="ID")
    parser.add_argument("--skip", nargs="+", default=[], metavar="ID")
    parser.add_argument("--out", type=Path, metavar="FOLDER", help="keep each result here, and use what is kept")
    parser.add_argument("--again", action="store_true", help="measure also what is kept in --out")
    parser.add_argument("--limit", type=float, default=420.0, help="seconds per case (420)")
    parser.add_argument("--options", default="", help="more options of autotune diagnose: --options='--no-lock'")
    parser.add_argument("--arguments", default="", help="arguments of each of --scripts: --arguments='--steps 200'")
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    return parser.parse_args()


def measured(args: argparse.Namespace, name: str) -> measuring.Json:
    return asdict(measure(args, name))


def main() -> None:
    args = arguments()
    labels = read_labels(args.labels)
    results = [
        Result(**measuring.kept(args.out, name, partial(measured, args, name), again=args.again))
        for name in chosen(labels, args.only, args.skip)
    ]
    scores = [scoring.score(labels[one.id], one.document, one.outcome) for one in results]
    rows = [
        {"id": result.id, "wall_s": result.wall_s, "why": result.why, **asdict(one)}
        for result, one in zip(results, scores, strict=True)
    ]
    summary = {"schema": 1, "totals": scoring.totals(scores), "cases": rows}
    measuring.show(summary, as_text(results, scores), args.json)


if __name__ == "__main__":
    main()
