"""Runs the tool on the labelled cases and scores it: macro-F1 over kinds, each rule, top-1 cause, false alarms.

python -m benchmarks.accuracy [--corpus FOLDER] [--subset | --set NAME | --only ID ...] [--out FOLDER] [--json FILE]
    [--parallel N] [--least F1]

Each case is diagnosed with zero edits in a fresh folder, a static one is checked. Only cases whose label holds count
(measure.py); the others are named. Cases whose authors had no list of kinds are scored by place (places.py), apart.
Without --corpus the public scripts are left out, and the table says so. With `--out FOLDER` every result is kept there
at once, and a later call goes on where this one ended.
"""

from __future__ import annotations

import argparse
import json
import shlex
import tempfile
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict
from pathlib import Path

import check_corpus
import corpus
import measuring
import scoring

from benchmarks.accuracy import cases, measure, places, scores
from benchmarks.accuracy.cases import Case, Labels
from benchmarks.accuracy.scores import Counts, Judged

LIMIT_S = 120.0
LEAST_ON_GPU = 1.3


def run(case: Case, given: argparse.Namespace) -> measuring.Json:
    """What the tool says of one case: {"reported", "first", "outcome", "wall_s"}, by place also places.answer()."""
    with tempfile.TemporaryDirectory(prefix=f"accuracy-{case.id}-") as place:
        folder = (Path(place) / "run").resolve()
        try:
            start = cases.laid_out(case, folder, given.corpus, is_changed=False)
        except (OSError, ValueError) as error:
            return {"reported": [], "first": [], "outcome": f"not laid out: {error}", "wall_s": 0.0}
        return checked(folder) if case.is_static else diagnosed(case, start, given)


def checked(folder: Path) -> measuring.Json:
    document, ended = check_corpus.check(folder)
    outcome = "checked" if document else measuring.failure(ended)
    reported = [finding["rule"] for finding in document["findings"]] if document else []
    return {"reported": reported, "first": [], "outcome": outcome, "wall_s": ended.wall_s}


def diagnosed(case: Case, start: corpus.Case, given: argparse.Namespace) -> measuring.Json:
    result = corpus.diagnose(start, case.id, shlex.split(given.options), given.limit)
    document = result.document
    return {
        "reported": [finding["rule"] for finding in document["findings"]] if document else [],
        "first": list(scoring.first_of(document)) if document else [],
        "outcome": result.why or result.outcome,
        "wall_s": result.wall_s,
        **(places.answer(document) if case.is_by_place else {}),
    }


def chosen(labels: Labels, given: argparse.Namespace) -> list[Case]:
    """The cases to run. Raises SystemExit for an id that has no label."""
    unknown = sorted(set(given.only) - {case.id for case in labels.cases})
    if unknown:
        raise SystemExit(f"accuracy: no label for {', '.join(unknown)}")
    wanted = [case for case in labels.cases if given.corpus or not case.corpus]
    if given.only:
        return [case for case in wanted if case.id in given.only]
    of_set = [case for case in wanted if case.set_name == (given.set_name or case.set_name)]
    of_set = [case for case in of_set if given.set_name or case.set_name not in cases.ON_GPU]
    return [case for case in of_set if case.in_subset or not given.subset]


def holds(case: Case, rows: dict[str, measuring.Json]) -> bool:
    """Static cases are labelled by what is documented, all others by what was measured of them.

    A healthy case that is scored by place has no second side: its author profiled it, and says why what costs must be.
    """
    if case.is_static or (case.is_by_place and case.is_healthy):
        return True
    if case.set_name in cases.ON_GPU:  # one start on each side, and no fault that gains less
        return min(case.ms_faulty) >= LEAST_ON_GPU * max(case.ms_repaired)
    return measure.verdict(case, measure.known(case, rows)) == "holds"


HEAD = ("case", "kind", "found", "missed", "false", "first", "outcome", "wall")


def table(rows: Sequence[Judged], results: dict[str, measuring.Json]) -> str:
    cells = [
        [
            row.case.id,
            row.case.kind,
            *(" ".join(part) for part in (row.found, row.missed, row.false)),
            {None: "", True: "yes", False: "NO: " + " ".join(results[row.case.id]["first"])}[row.is_first],
            results[row.case.id]["outcome"],
            f"{results[row.case.id]['wall_s']:.0f} s",
        ]
        for row in rows
    ]
    return measuring.table(HEAD, cells)


def counts_table(head: str, every: dict[str, Counts]) -> str:
    cells = [
        [name, *map(str, (one.right, one.wrong, one.missed)), *map(percent, (one.precision, one.recall, one.f1))]
        for name, one in every.items()
    ]
    return measuring.table([head, "right", "wrong", "missed", "precision", "recall", "F1"], cells)


def percent(value: float | None) -> str:
    return "-" if value is None else f"{100 * value:.0f} %"


def summary_table(groups: dict[str, Sequence[Judged]]) -> str:
    """One column for each group of cases; a score with its interval, or how many cases there are."""
    every = {name: scores.summary(rows) for name, rows in groups.items()}
    cells = [["cases", *(str(len(rows)) for rows in groups.values())]]
    for score in scores.SCORES:
        cells.append([score, *(interval(said[score]) if score in said else "-" for said in every.values())])
    return measuring.table(["", *groups], cells)


def interval(values: tuple[float, float, float]) -> str:
    return "{} ({} to {})".format(*map(percent, values))


def grouped(rows: Sequence[Judged]) -> dict[str, Sequence[Judged]]:
    """All measured cases, then those of each set."""
    names = dict.fromkeys(row.case.set_name for row in rows)
    of_sets = {name: [row for row in rows if row.case.set_name == name] for name in names}
    return {"measured": [row for row in rows if not row.case.is_static], **of_sets}


def text(
    rows: Sequence[Judged],
    by_place: Sequence[places.Judged],
    results: dict[str, measuring.Json],
    left_out: Sequence[str],
) -> str:
    parts = [
        *(kinds_parts(rows, results) if rows else []),
        *([places.text(by_place, results)] if by_place else []),
        *([f"Not scored, label not held by a measurement: {', '.join(left_out)}"] if left_out else []),
    ]
    return "\n\n".join(parts)


def kinds_parts(rows: Sequence[Judged], results: dict[str, measuring.Json]) -> list[str]:
    return [
        table(rows, results),
        counts_table("kind", scores.of_kinds(rows)),
        counts_table("rule", scores.of_rules(rows)),
        summary_table(grouped(rows)),
    ]


def as_json(
    rows: Sequence[Judged],
    by_place: Sequence[places.Judged],
    results: dict[str, measuring.Json],
    left_out: Sequence[str],
) -> measuring.Json:
    plain = [{**asdict(row), **results[row.case.id], "case": row.case.id, "kind": row.case.kind} for row in rows]
    said = {name: scores.summary(group) for name, group in grouped(rows).items()}
    document = {"schema": 1, "cases": plain, "scores": said, "not_scored": list(left_out)}
    if by_place:
        placed = [places.plain(row, results[row.case.id]) for row in by_place]
        document["by_place"] = {"cases": placed, "scores": places.summary(by_place)}
    return document


def reach(reached: float | None, least: float) -> None:
    """Raises SystemExit where the macro-F1 is lower than asked for, or where there is none."""
    if reached is None or reached < least:
        raise SystemExit(f"accuracy: macro-F1 {percent(reached)}, at least {percent(least)} is asked for")


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--corpus", type=Path, metavar="FOLDER", help="folder with prepare.sh, for the public scripts")
    parser.add_argument("--subset", action="store_true", help="a fixed choice of own scripts, about three minutes")
    parser.add_argument(
        "--set", dest="set_name", choices=cases.set_names(), help="only the cases of this folder of fixtures/labelled"
    )
    parser.add_argument("--only", nargs="+", default=[], metavar="ID")
    parser.add_argument("--out", type=Path, metavar="FOLDER", help="keep each result here, and use what is kept")
    parser.add_argument("--again", action="store_true", help="run also what is kept in --out")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write everything to this file")
    parser.add_argument("--least", type=float, metavar="F1", help="exit with 1 where the macro-F1 is lower, or none")
    parser.add_argument("--limit", type=float, default=LIMIT_S, metavar="S", help=f"for one diagnosis ({LIMIT_S:.0f})")
    parser.add_argument("--parallel", type=int, default=1, help="diagnoses at once, with --options='--no-lock' (1)")
    parser.add_argument("--options", default="", help="more options of autotune diagnose: --options='--no-lock'")
    return parser.parse_args()


def run_all(every: Sequence[Case], given: argparse.Namespace) -> dict[str, measuring.Json]:
    """What the tool says of each case, by id."""

    def kept(case: Case) -> measuring.Json:
        return measuring.kept(given.out, case.id, lambda: run(case, given), again=given.again)

    with ThreadPoolExecutor(given.parallel) as pool:
        return dict(zip((case.id for case in every), pool.map(kept, every), strict=True))


def main() -> None:
    given, labels, measured = arguments(), cases.read(), measure.kept(measure.MEASURED)
    every = chosen(labels, given)
    scored = [case for case in every if holds(case, measured)]
    left_out = [case.id for case in every if case not in scored]
    results = run_all(scored, given)
    rows = [
        scores.judge(case, labels, results[case.id]["reported"], results[case.id]["first"])
        for case in scored
        if not case.is_by_place
    ]
    by_place = [places.judge(case, labels, results[case.id]) for case in scored if case.is_by_place]
    if given.json:
        document = as_json(rows, by_place, results, left_out)
        given.json.write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")
    print(text(rows, by_place, results, left_out))
    if not given.corpus:
        print("\nWithout --corpus: the public scripts were left out.")
    if given.least is not None:
        reach(scores.macro_f1(rows), given.least)


if __name__ == "__main__":
    main()
