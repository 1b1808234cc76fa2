"""Scores of the cases that are judged by place: does the tool point at the lines of a fault, and is it silent else?

The authors of these cases had no list of kinds, so a fault may be one that no rule names. Pointing at its lines counts
as finding it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import sqrt
from pathlib import PurePath
from statistics import median

import measuring

from benchmarks.accuracy.cases import Case, Labels

TOLERANCE = 2
"""Lines that a reported place may lie beside a labelled one."""

NUM_LINES = 6
"""Rows of the table of lines that count: what a reader takes in."""

PLACE = ("file", "line", "end_line")
NAMED = re.compile(r"\b([\w-]+\.py):(\d+)\b")
"""A place in the sentence of a finding."""

QUESTIONS = "HS"
"""The rules of hot spots, by how their ids begin: they ask about a line that costs much, and claim no fault."""

Z = 1.96


@dataclass(frozen=True, slots=True)
class Judged:
    """One case. `share` is what the fault costs of a step, by its author's figures; None for a healthy case.

    `is_first` says whether what is reported first names the cause or lies at its place, `is_anywhere` whether anything
    reported does; both None for a healthy case, and False for a fault without a report. `alarms` are the rules that a
    healthy case's report has and should not have; None without a report. `said`: what is reported first, for a reader.
    """

    case: Case
    share: float | None
    is_first: bool | None
    is_anywhere: bool | None
    alarms: tuple[str, ...] | None
    said: str

    @property
    def is_question(self) -> bool:
        """Whether the case has alarms, and all are questions."""
        return bool(self.alarms) and all(rule.startswith(QUESTIONS) for rule in self.alarms or ())


def answer(document: measuring.Json | None) -> measuring.Json:
    """What is scored of a report: {"findings": [{"rule", "file", "line", "end_line", "named"}], "hottest", "function",
    "lines"}.

    {} without a report. A finding without a place has None as its file and lines; `named` are the places in its
    sentence. Reports of older versions have no lines and no hottest one.
    """
    if document is None:
        return {}
    step, verdict = document.get("step") or {}, document.get("verdict") or {}
    return {
        "findings": [
            {
                "rule": one["rule"],
                **{key: (one.get("location") or {}).get(key) for key in PLACE},
                "named": [{"file": file, "line": int(line)} for file, line in NAMED.findall(one["message"])],
            }
            for one in document["findings"]
        ],
        "hottest": verdict.get("hottest"),
        "function": verdict.get("function"),
        "lines": [
            {key: row.get(key) for key in ("file", "line", "end_line", "function", "share")}
            for row in (step.get("lines") or [])[:NUM_LINES]
        ],
    }


def judge(case: Case, labels: Labels, said: measuring.Json) -> Judged:
    """`said` holds what answer() gave. Findings of unscored rules count on neither side."""
    findings = [one for one in said.get("findings", ()) if one["rule"] not in labels.unscored]
    hottest = said.get("hottest")
    if case.is_healthy:
        alarms = tuple(dict.fromkeys(one["rule"] for one in findings)) if "findings" in said else None
        return Judged(case, None, None, None, alarms, words(findings, hottest))
    # The verdict names a function first where that costs more than the hottest line.
    first = findings[0] if findings else said.get("function") or hottest
    # Of the hottest line the verdict says what leads to it, where that is one line that runs several times.
    led = None if findings or not hottest or said.get("function") else hottest.get("repeated_by")
    is_first = any(bool(one) and hits(case, one) for one in (first, led))
    is_anywhere = is_first or any(hits(case, one) for one in [*findings, *said.get("lines", ())[:NUM_LINES]])
    return Judged(case, share(case), is_first, is_anywhere, None, words(findings, said.get("function") or hottest))


def hits(case: Case, one: measuring.Json) -> bool:
    """Whether a finding, a row of the table of lines or the hottest line names the cause, lies at its place or names a
    line there."""
    if one.get("rule") in case.expect or any(hits(case, each) for each in one.get("named", ())):
        return True
    if not one.get("file") or not one.get("line"):
        return False
    last = one.get("end_line") or one["line"]
    return any(
        is_same(one["file"], place.file) and one["line"] <= place.last + TOLERANCE and last >= place.first - TOLERANCE
        for place in case.places
    )


def is_same(said: str, labelled: str) -> bool:
    """Whether two paths mean one file of a case: one may be absolute or named from another folder, with equal ends."""
    ours, theirs = PurePath(labelled).parts, PurePath(said).parts
    shorter = min(len(ours), len(theirs))
    return ours[-shorter:] == theirs[-shorter:]


def share(case: Case) -> float:
    return 1 - median(case.ms_repaired) / median(case.ms_faulty)


def words(findings: Sequence[measuring.Json], hottest: measuring.Json | None) -> str:
    """What is reported first: a rule with its place, or the hottest line."""
    if findings:
        return " ".join(part for part in (findings[0]["rule"], spot(findings[0])) if part)
    return f"hottest {spot(hottest)}" if hottest else "-"


def spot(one: measuring.Json) -> str:
    return f"{PurePath(one['file']).name}:{one['line']}" if one.get("file") else ""


def summary(rows: Sequence[Judged]) -> dict[str, measuring.Json]:
    """Each score as {"count", "of", "share", "low", "high"}: how many of how many cases, with its 95 % interval.

    `alarms` and `questions` are of the healthy cases that have a report.
    """
    faults = [row for row in rows if not row.case.is_healthy]
    healthy = [row for row in rows if row.alarms is not None]
    return {
        "first": rate([bool(row.is_first) for row in faults]),
        "anywhere": rate([bool(row.is_anywhere) for row in faults]),
        "alarms": rate([bool(row.alarms) for row in healthy]),
        "questions": rate([row.is_question for row in healthy]),
    }


def rate(hit: Sequence[bool]) -> measuring.Json:
    """A share of cases; `share`, `low` and `high` are None without a case."""
    count, of = sum(hit), len(hit)
    low, high = wilson(count, of) if of else (None, None)
    return {"count": count, "of": of, "share": count / of if of else None, "low": low, "high": high}


def wilson(count: int, of: int) -> tuple[float, float]:
    """The 95 % score interval of a share (Wilson 1927): sound also at 0 of n and n of n, and for few cases."""
    share, spread = count / of, Z**2 / of
    middle = share + spread / 2
    half = Z * sqrt(share * (1 - share) / of + spread / (4 * of))
    return max(0.0, (middle - half) / (1 + spread)), min(1.0, (middle + half) / (1 + spread))


HEAD = ("case", "share", "first", "anywhere", "reported first", "outcome", "wall")


def table(rows: Sequence[Judged], results: Mapping[str, measuring.Json]) -> str:
    """Faults, then healthy cases. Those have in place of a hit what was reported and should not have been."""
    ordered = sorted(rows, key=lambda row: row.case.is_healthy)
    return measuring.table(HEAD, [cells(row, results[row.case.id]) for row in ordered])


def cells(row: Judged, result: measuring.Json) -> list[str]:
    if row.case.is_healthy:
        kind = "question: " if row.is_question else "ALARM: "
        what = ["healthy", "", "", kind + " ".join(row.alarms) if row.alarms else row.said]
    else:
        yes = {True: "yes", False: "NO"}
        what = [f"{100 * (row.share or 0):.0f} %", yes[bool(row.is_first)], yes[bool(row.is_anywhere)], row.said]
    return [row.case.id, *what, result["outcome"], f"{result['wall_s']:.0f} s"]


NAMES = {
    "first": "faults whose cause is reported first",
    "anywhere": "faults whose cause is reported anywhere",
    "alarms": "healthy cases with any finding",
    "questions": "of these, with questions only",
}


def text(rows: Sequence[Judged], results: Mapping[str, measuring.Json]) -> str:
    said = summary(rows)
    totals = measuring.table(["score", "cases", "share"], [[NAMES[name], *shown(one)] for name, one in said.items()])
    silent = [row.case.id for row in rows if row.case.is_healthy and row.alarms is None]
    without = [f"Healthy, not scored for want of a report: {', '.join(silent)}"] if silent else []
    return "\n\n".join([table(rows, results), totals, *without])


def shown(one: measuring.Json) -> tuple[str, str]:
    if one["share"] is None:
        return "0", "-"
    share, low, high = (f"{100 * one[key]:.0f} %" for key in ("share", "low", "high"))
    return f"{one['count']} of {one['of']}", f"{share} ({low} to {high})"


def plain(row: Judged, result: measuring.Json) -> measuring.Json:
    """One case for the JSON result."""
    return {
        "case": row.case.id,
        "kind": row.case.kind,
        "topic": row.case.topic,
        "share": row.share,
        "is_first": row.is_first,
        "is_anywhere": row.is_anywhere,
        "alarms": None if row.alarms is None else list(row.alarms),
        "is_question": row.is_question,
        **result,
    }
