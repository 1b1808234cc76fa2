"""Runs other tools ("peers") on the labelled cases and scores what they say by the same labels, beside ours.

python -m benchmarks.accuracy.peers --envs FOLDER [--peer NAME ...] [--ours FILE] [--corpus FOLDER] [--only ID ...]
    [--out FOLDER] [--again] [--json FILE]

FOLDER/NAME is the virtual environment of each peer, with the package that peers.toml names and what the cases need.
peer_tools.py says how each is used, peer_edits.py puts the lines that its documentation asks for into a script, and
peers.toml says which kinds of fault a code names. Only cases whose label holds count (measure.py). A case on which a
peer gave no verdict is named, and left out of its scores and of ours beside it. `--ours` is what `python -m
benchmarks.accuracy --json` wrote. With `--out` each answer is kept at once, and asked for again when the case, its
edit or the package has changed.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import tempfile
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import measuring

from benchmarks.accuracy import __main__ as accuracy
from benchmarks.accuracy import cases, measure, peer_tools, scores
from benchmarks.accuracy.cases import HERE, Case, Labels
from benchmarks.accuracy.scores import Judged

HARNESS = ("peer_tools.py", "peer_edits.py", "peer_runtime/peer_limits.py", "peer_runtime/gpuprof_codes.py")
OUT_OF_SCOPE = {
    "static": "static cases, which are not run",
    "public": "public scripts, which need environments of their own",
}


@dataclass(frozen=True, slots=True)
class Peer:
    """One row of peers.toml, which says what its keys mean."""

    name: str
    package: str
    lines: str
    ranks: bool
    neutral: tuple[str, ...]
    codes: Mapping[str, Sequence[str]]
    on_gpu: tuple[str, ...] = ()


def read(path: Path = HERE / "peers.toml") -> dict[str, Peer]:
    rows = tomllib.loads(path.read_text(encoding="utf-8"))
    return {name: Peer(name, **cases.frozen(row)) for name, row in rows.items()}


def check(peer: Peer, envs: Path) -> None:
    """Raises SystemExit where the peer's environment lacks, or holds another version."""
    package, wanted = peer.package.split("==")
    name, python = package.split("[")[0], envs / peer.name / "bin" / "python"
    if not python.exists():
        raise SystemExit(f"peers: there is no environment {python.parent.parent}")
    asked = f"from importlib.metadata import version; print(version({name!r}))"
    ended = measuring.run([str(python), "-c", asked], cwd=envs, environ={}, limit_s=60)
    if ended.out.strip() != wanted:
        raise SystemExit(f"peers: {envs / peer.name} has {name} {ended.out.strip() or 'not'}; wanted: {peer.package}")


def stamp(peer: Peer, case: Case) -> str:
    """Changes with everything that an answer depends on, but for what the corpus holds."""
    digest = hashlib.sha256(f"{peer.package} {cases.stamp(case)}".encode())
    for name in HARNESS:
        digest.update((HERE / name).read_bytes())
    return digest.hexdigest()[:12]


def asked(peer: Peer, case: Case, given: argparse.Namespace) -> measuring.Json:
    """What the peer says of one case: kept, where --out has it of this very case and edit, or asked for now.

    {"codes": [[code, whether it was said with the lowest severity], ...], or None without a verdict; "why" there is
    none; "report", "wall_s", "stamp"}.
    """
    name, now = f"{peer.name}/{case.id}", stamp(peer, case)
    path = given.out / f"{name}.json" if given.out else None
    is_old = path is not None and path.exists() and json.loads(path.read_text(encoding="utf-8"))["stamp"] != now
    return measuring.kept(
        given.out, name, lambda: {"stamp": now, **ask(peer, case, given)}, again=given.again or is_old
    )


def ask(peer: Peer, case: Case, given: argparse.Namespace) -> measuring.Json:
    with tempfile.TemporaryDirectory(prefix=f"peer-{case.id}-") as place:
        folder = (Path(place) / "run").resolve()
        try:
            start = cases.laid_out(case, folder, given.corpus, is_changed=False)
            answer = peer_tools.answer(peer.name, case, start, folder, given.envs.resolve() / peer.name / "bin")
        # Whatever a peer prints that cannot be read is no verdict.
        except (OSError, ValueError, LookupError, TypeError) as error:
            return {"codes": None, "why": f"{error}" or type(error).__name__, "report": "", "wall_s": 0.0}
    return {"codes": answer.said, "why": "", "report": answer.report, "wall_s": answer.wall_s}


def judge(peer: Peer, case: Case, labels: Labels, codes: Sequence[peer_tools.Said]) -> Judged:
    """The codes in our words, by the rules of peers.toml."""
    also = {*case.also, *labels.unscored}
    allowed = {case.kind, *(kind for kind, rules in labels.kinds.items() if also & set(rules))}
    silent = {*peer.neutral, *(() if case.is_static else peer.on_gpu)}
    said = {code: tuple(peer.codes.get(code, ())) for code, _ in codes if code not in silent}
    loud = {code for code, is_low in codes if not is_low}
    false = {code: kinds for code, kinds in said.items() if code in loud and not allowed & set(kinds)}
    named = any(case.kind in kinds for kinds in said.values())
    is_ranked = peer.ranks and not case.is_healthy and not case.is_static
    return Judged(
        case,
        found=tuple(code for code, kinds in said.items() if case.kind in kinds),
        missed=() if named or case.is_healthy else (case.kind,),
        false=tuple(false),
        named=named,
        false_kinds=tuple(dict.fromkeys(kinds[0] for kinds in false.values() if kinds)),
        is_first=case.kind in next(iter(said.values()), ()) if is_ranked else None,
    )


def ours(path: Path, labels: Labels) -> dict[str, Judged]:
    """What our own run said of each case; one that it could not diagnose counts as silent."""
    rows = json.loads(path.read_text(encoding="utf-8"))["cases"]
    by_id = {case.id: case for case in labels.cases}
    known = [row for row in rows if row["case"] in by_id]
    return {row["case"]: scores.judge(by_id[row["case"]], labels, row["reported"], row["first"]) for row in known}


@dataclass(frozen=True, slots=True)
class Compared:
    """One peer over all cases: what it said where it gave a verdict, ours there, and why it gave none elsewhere.

    `answers` holds what was kept of every case that was tried; `out_of_scope` the cases that were not, by reason.
    """

    peer: Peer
    rows: tuple[Judged, ...]
    beside: tuple[Judged, ...]
    without: Mapping[str, str]
    out_of_scope: Mapping[str, Sequence[str]]
    answers: Mapping[str, measuring.Json]


def compare(
    peer: Peer, every: Sequence[Case], labels: Labels, own: Mapping[str, Judged], given: argparse.Namespace
) -> Compared:
    reasons = {case.id: peer_tools.out_of_scope(peer.name, case) for case in every}
    tried = [case for case in every if not reasons[case.id]]
    answers = {case.id: asked(peer, case, given) for case in tried}
    spoken = [case for case in tried if answers[case.id]["codes"] is not None]
    return Compared(
        peer,
        rows=tuple(judge(peer, case, labels, answers[case.id]["codes"]) for case in spoken),
        beside=tuple(own[case.id] for case in spoken if case.id in own),
        without={case.id: answers[case.id]["why"] for case in tried if case not in spoken},
        out_of_scope={
            word: [name for name, reason in reasons.items() if reason == word]
            for word in OUT_OF_SCOPE
            if word in reasons.values()
        },
        answers=answers,
    )


def lines(one: Compared) -> list[list[str]]:
    """The scores of a peer, and of ours on the same cases."""
    return [
        [name, str(len(rows)), *(accuracy.interval(said[s]) if s in said else "-" for s in scores.SCORES)]
        for name, rows in ((one.peer.package, one.rows), ("autotune on these", one.beside))
        if rows
        for said in [scores.summary(rows)]
    ]


def said_table(every: Sequence[Compared], order: Sequence[Case]) -> str:
    """Every case with what each peer reported, low severities in brackets."""
    cells = [[case.id, case.kind, *(cell(one.answers.get(case.id)) for one in every)] for case in order]
    return measuring.table(["case", "kind", *(one.peer.name for one in every)], cells)


def cell(answer: measuring.Json | None) -> str:
    if answer is None:
        return ""
    if answer["codes"] is None:
        return "no verdict"
    return " ".join(f"({code})" if is_low else code for code, is_low in answer["codes"]) or "-"


def notes(one: Compared) -> str:
    """What was put into the scripts of a peer, and the cases that its scores leave out."""
    scope = [f"Not tried: {len(ids)} {OUT_OF_SCOPE[word]}." for word, ids in one.out_of_scope.items()]
    silent = [f"No verdict on {name}: {why.splitlines()[-1]}" for name, why in one.without.items()]
    return "\n".join([f"{one.peer.package}: {one.peer.lines}.", *scope, *silent])


def text(every: Sequence[Compared], order: Sequence[Case], left_out: Mapping[str, Sequence[str]]) -> str:
    parts = [
        said_table(every, order),
        measuring.table(["tool", "cases", *scores.SCORES], [line for one in every for line in lines(one)]),
        *map(notes, every),
        *(f"Not scored, {why}: {', '.join(ids)}" for why, ids in left_out.items() if ids),
    ]
    return "\n\n".join(parts)


def as_json(every: Sequence[Compared], left_out: Mapping[str, Sequence[str]]) -> measuring.Json:
    return {"schema": 1, "peers": {one.peer.name: plain(one) for one in every}, "not_scored": dict(left_out)}


def plain(one: Compared) -> measuring.Json:
    judged = [
        {**asdict(row), **one.answers[row.case.id], "case": row.case.id, "kind": row.case.kind} for row in one.rows
    ]
    return {
        "package": one.peer.package,
        "lines": one.peer.lines,
        "cases": judged,
        "scores": scores.summary(one.rows),
        "ours_on_these": scores.summary(one.beside),
        "without_a_verdict": dict(one.without),
        "not_tried": dict(one.out_of_scope),
    }


def arguments(names: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--envs", type=Path, required=True, metavar="FOLDER", help="holds an environment for each peer")
    parser.add_argument("--peer", nargs="+", default=list(names), choices=names)
    parser.add_argument("--ours", type=Path, metavar="FILE", help="our results, as benchmarks.accuracy --json writes")
    parser.add_argument("--corpus", type=Path, metavar="FOLDER", help="folder with prepare.sh, for the public scripts")
    parser.add_argument("--only", nargs="+", default=[], metavar="ID")
    parser.add_argument("--out", type=Path, metavar="FOLDER", help="keep each answer here, and use what is kept")
    parser.add_argument("--again", action="store_true", help="ask also for what is kept in --out")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write everything to this file")
    parser.set_defaults(subset=False, set_name=None)
    return parser.parse_args()


def main() -> None:
    peers, labels, measured = read(), cases.read(), measure.kept(measure.MEASURED)
    given = arguments(list(peers))
    own = ours(given.ours, labels) if given.ours else {}
    # What a peer says is mapped to kinds, and these have none.
    wanted = [case for case in accuracy.chosen(labels, given) if not case.is_by_place]
    left_out = {
        "label not held by a measurement": [case.id for case in wanted if not accuracy.holds(case, measured)],
        "no result of ours": [case.id for case in wanted if given.ours and case.id not in own],
    }
    scored = [case for case in wanted if not any(case.id in ids for ids in left_out.values())]
    chosen = [peers[name] for name in given.peer]
    for peer in chosen:
        check(peer, given.envs.resolve())
    every = [compare(peer, scored, labels, own, given) for peer in chosen]
    if given.json:
        given.json.write_text(json.dumps(as_json(every, left_out), indent=1) + "\n", encoding="utf-8")
    print(text(every, scored, left_out))
    if not given.corpus:
        print("\nWithout --corpus: the public scripts were left out.")


if __name__ == "__main__":
    main()
