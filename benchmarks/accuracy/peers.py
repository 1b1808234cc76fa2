"""Runs other tools on the labelled cases and scores what they say by the same labels, beside ours.

python -m benchmarks.accuracy.peers --envs FOLDER [--peer NAME ...] [--ours FILE] [--corpus FOLDER] [--out FOLDER]

FOLDER/NAME is the virtual environment of each peer, with the package that peers.toml names and what the cases need.
Linters read every case; the others run the own scripts whose command is `python SCRIPT`, with the lines that their
documentation asks for put in at run time (peer_edits/). peers.toml says which kinds of fault a verdict names; neutral
verdicts count for nothing. `--ours` is what `python -m benchmarks.accuracy --json` wrote: it is scored on the same
cases. With `--out` what a tool said is kept at once, and a later call goes on.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import tempfile
import tomllib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import corpus
import measuring

from benchmarks.accuracy import __main__ as accuracy
from benchmarks.accuracy import cases, measure, scores
from benchmarks.accuracy.cases import HERE, Case, Labels
from benchmarks.accuracy.scores import Judged

EDITED = HERE / "peer_edits" / "edited.py"
STEPS = 60
"""Optimizer steps that a tool sees at least."""


@dataclass(frozen=True, slots=True)
class Peer:
    """One row of peers.toml: what to install, and the kinds of fault that each of its codes names."""

    name: str
    package: str
    edits: str
    neutral: tuple[str, ...]
    codes: Mapping[str, Sequence[str]]
    zero_edit: tuple[str, ...] = ()


def read(path: Path = HERE / "peers.toml") -> dict[str, Peer]:
    rows = tomllib.loads(path.read_text(encoding="utf-8"))
    return {name: Peer(name, **cases.frozen(row)) for name, row in rows.items()}


Said = measuring.Json
"""{"codes": what the tool reported, in its order, or None where it gave no verdict; "outcome"; "wall_s"}."""


def hotpath(ended: measuring.Ended, folder: Path) -> list[str]:
    return [finding["rule_id"] for file in json.loads(ended.out)["files"] for finding in file["findings"]]


def torchfix(ended: measuring.Ended, folder: Path) -> list[str]:
    return re.findall(r": (TOR\d{3}) ", ended.out)


def pytscope(ended: measuring.Ended, folder: Path) -> list[str]:
    return re.findall(r"\(([A-Z]+\.[A-Z_]+)\)", ended.out)


def gpuprof(ended: measuring.Ended, folder: Path) -> list[str]:
    return json.loads(ended.out.splitlines()[-1])


def traceml(ended: measuring.Ended, folder: Path) -> list[str]:
    (summary,) = folder.glob("logs/*/final_summary.json")
    document = json.loads(summary.read_text(encoding="utf-8"))
    return [document["primary_diagnosis"]["kind"]]


GPUPROF_CODES = """
import json, sys
from gpuprof import insights
conn = insights.sqlite3.connect(sys.argv[1])
context = insights._build_ctx(conn, 1)
context.db_path = sys.argv[1]
found = [(rule.__name__.removeprefix("rule_"), rule(context)) for rule in insights.RULES]
print(json.dumps([name for name, one in found if one and one["severity"] != "low"]))
"""
"""Its rules by their names, which its report does not print."""


@dataclass(frozen=True, slots=True)
class Tool:
    """How a peer is used. `reads` is its command on a path; else `starts` stands before the script, and `reports`
    prints the verdict afterwards."""

    verdict: Callable[[measuring.Ended, Path], list[str]]
    reads: tuple[str, ...] = ()
    starts: tuple[str, ...] = ("{bin}/python", "{edited}")
    between: tuple[str, ...] = ()
    reports: tuple[str, ...] = ()


TOOLS = {
    "traceml": Tool(
        traceml,
        starts=("{bin}/traceml", "run", "{edited}", "--logs-dir", "logs", "--run-name", "case"),
        between=("--args",),
    ),
    "gpuprof": Tool(gpuprof, reports=("{bin}/python", "-c", GPUPROF_CODES, "{kept}/gpuprof.db")),
    "pytscope": Tool(pytscope, reports=("{bin}/pytscope", "analyze", "{kept}")),
    "hotpath": Tool(hotpath, reads=("{bin}/hotpath", "analyze", "{path}", "--format", "json")),
    "torchfix": Tool(torchfix, reads=("{bin}/torchfix", "--select", "ALL", "{path}")),
}


def filled(words: Sequence[str], **places: object) -> list[str]:
    """The words with {name} replaced; a word of many lines is code, and stays."""
    return [word if "\n" in word else word.format(**places) for word in words]


def can(peer: Peer, case: Case) -> bool:
    """Whether the tool can be used on the case."""
    return bool(TOOLS[peer.name].reads) or not (case.is_static or case.corpus)


def ask(peer: Peer, case: Case, given: argparse.Namespace) -> Said:
    """What the tool says of one case, laid out in a fresh folder."""
    with tempfile.TemporaryDirectory(prefix=f"peer-{case.id}-") as place:
        folder, kept = (Path(place) / "run").resolve(), (Path(place) / "kept").resolve()
        kept.mkdir()
        try:
            start = cases.laid_out(case, folder, given.corpus, is_changed=False)
            ended = used(peer, case, start, given.envs.resolve() / peer.name / "bin", kept)
        except (OSError, ValueError) as error:
            return {"codes": None, "outcome": str(error), "wall_s": 0.0}
        try:
            codes = list(dict.fromkeys(TOOLS[peer.name].verdict(ended, start.cwd)))
        except (ValueError, KeyError, IndexError):
            return {"codes": None, "outcome": measuring.failure(ended), "wall_s": ended.wall_s}
        return {"codes": codes, "outcome": f"exit {ended.code}", "wall_s": ended.wall_s}


def used(peer: Peer, case: Case, start: corpus.Case, at: Path, kept: Path) -> measuring.Ended:
    """The process whose output holds the verdict. Raises ValueError for a command that the tool cannot start."""
    tool, places = TOOLS[peer.name], {"bin": at, "edited": EDITED, "kept": kept}
    environ = {**start.environ, "PATH": os.pathsep.join([str(at), start.environ["PATH"]])}
    run = partial(measuring.run, cwd=start.cwd, environ=environ, limit_s=accuracy.LIMIT_S)
    if tool.reads:
        script = next((word for word in start.argv if word.endswith(".py")), ".") if case.corpus else "."
        return run(filled(tool.reads, path=start.cwd / script, **places))
    program, script, *arguments = start.argv
    if program != "python" or not script.endswith(".py"):
        raise ValueError(f"not started by python SCRIPT: {' '.join(start.argv)}")
    edits = "none" if case.framework in peer.zero_edit else peer.name
    steps = str(max(STEPS, case.warmup + case.steps))
    words = [*filled(tool.starts, **places), *tool.between, edits, steps, str(kept), script, *arguments]
    ended = run(words)
    return run(filled(tool.reports, **places)) if tool.reports and ended.code == 0 else ended


def judge(peer: Peer, case: Case, labels: Labels, codes: Sequence[str]) -> Judged:
    """The verdict in our words: a code is right where it names the case's kind, or one that may be reported."""
    also = {*case.also, *labels.unscored}
    allowed = {case.kind, *(kind for kind, rules in labels.kinds.items() if also & set(rules))}
    said = {code: tuple(peer.codes.get(code, ("unknown",))) for code in codes if code not in peer.neutral}
    false = {code: kinds for code, kinds in said.items() if not allowed & set(kinds)}
    named = any(case.kind in kinds for kinds in said.values())
    is_fault = not case.is_healthy and not case.is_static
    return Judged(
        case,
        found=tuple(code for code, kinds in said.items() if case.kind in kinds),
        missed=() if named or case.is_healthy else (case.kind,),
        false=tuple(false),
        named=named,
        false_kinds=tuple(dict.fromkeys(kinds[0] for kinds in false.values())),
        is_first=case.kind in next(iter(said.values()), ()) if is_fault else None,
    )


def ours(path: Path, labels: Labels) -> dict[str, Judged]:
    """What our own run said of each case."""
    rows = json.loads(path.read_text(encoding="utf-8"))["cases"]
    by_id = {case.id: case for case in labels.cases}
    return {row["case"]: scores.judge(by_id[row["case"]], labels, row["reported"], row["first"]) for row in rows}


def lines(peer: Peer, rows: Sequence[Judged], own: Mapping[str, Judged], failed: int) -> list[list[str]]:
    """The scores of a tool, and of ours on the same cases."""
    beside = [own[row.case.id] for row in rows if row.case.id in own]
    return [
        [name, str(len(judged)), *(accuracy.interval(said[s]) if s in said else "-" for s in scores.SCORES), note]
        for name, judged, note in (
            (peer.package, rows, f"{failed} without a verdict"),
            ("autotune on these", beside, ""),
        )
        if judged
        for said in [scores.summary(judged)]
    ]


def arguments(names: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--envs", type=Path, required=True, metavar="FOLDER", help="holds an environment for each peer")
    parser.add_argument("--peer", nargs="+", default=list(names), choices=names)
    parser.add_argument("--ours", type=Path, metavar="FILE", help="our results, as benchmarks.accuracy --json writes")
    parser.add_argument("--corpus", type=Path, metavar="FOLDER", help="folder with prepare.sh, for the public scripts")
    parser.add_argument("--only", nargs="+", default=[], metavar="ID")
    parser.add_argument("--out", type=Path, metavar="FOLDER", help="keep what is said here, and use what is kept")
    return parser.parse_args()


def main() -> None:
    peers, labels, measured = read(), cases.read(), measure.kept(measure.MEASURED)
    given = arguments(list(peers))
    every = [case for case in labels.cases if accuracy.holds(case, measured) and (given.corpus or not case.corpus)]
    every = [case for case in every if not given.only or case.id in given.only]
    own, table = ours(given.ours, labels) if given.ours else {}, []
    for peer in (peers[name] for name in given.peer):
        rows, failed = [], 0
        for case in (case for case in every if can(peer, case)):
            out = given.out / peer.name if given.out else None
            said = measuring.kept(out, case.id, lambda: ask(peer, case, given))  # noqa: B023
            failed += said["codes"] is None
            rows.append(judge(peer, case, labels, said["codes"] or ()))
        table += lines(peer, rows, own, failed)
    print(measuring.table(["tool", "cases", *scores.SCORES, ""], table))


if __name__ == "__main__":
    main()
