"""What the tool got right over labelled cases: F1 of each kind of fault, precision and recall of each rule, top-1."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import measuring

from benchmarks.accuracy.cases import Case, Labels


@dataclass(frozen=True, slots=True)
class Judged:
    """One case: expected rules that were found and missed, and those that were reported and had to stay silent.

    `named` says whether the case's kind was named by any of its rules, `false_kinds` which others were; `is_first`
    whether rank one names it, None where nothing is ranked or there is nothing to rank.
    """

    case: Case
    found: tuple[str, ...]
    missed: tuple[str, ...]
    false: tuple[str, ...]
    named: bool
    false_kinds: tuple[str, ...]
    is_first: bool | None


def judge(case: Case, labels: Labels, reported: Sequence[str], first: Sequence[str]) -> Judged:
    """`reported`: the rules of all findings; `first`: those of what is ranked first.

    Every rule that is neither expected nor allowed had to stay silent. Rank one is right where it names the kind.
    """
    allowed = {*case.expect, *case.also, *labels.unscored}
    false = tuple(rule for rule in dict.fromkeys(reported) if rule not in allowed)
    naming = labels.kinds.get(case.kind, ())
    ranks = not case.is_healthy and not case.is_static
    return Judged(
        case,
        found=tuple(rule for rule in case.expect if rule in reported),
        missed=tuple(rule for rule in case.expect if rule not in reported),
        false=false,
        named=any(rule in naming for rule in reported),
        false_kinds=tuple(kind for kind, rules in labels.kinds.items() if set(rules) & set(false)),
        is_first=any(rule in naming for rule in first) if ranks else None,
    )


@dataclass(frozen=True, slots=True)
class Counts:
    """Right, wrong and missed calls of one rule or kind."""

    right: int
    wrong: int
    missed: int

    @property
    def precision(self) -> float | None:
        return ratio(self.right, self.right + self.wrong)

    @property
    def recall(self) -> float | None:
        return ratio(self.right, self.right + self.missed)

    @property
    def f1(self) -> float | None:
        return ratio(2 * self.right, 2 * self.right + self.wrong + self.missed)


def ratio(part: int, whole: int) -> float | None:
    return part / whole if whole else None


def of_kinds(rows: Sequence[Judged]) -> dict[str, Counts]:
    """For each kind that one of the cases has: cases in which it was named rightly, wrongly, and not."""
    kinds = dict.fromkeys(row.case.kind for row in rows if not row.case.is_healthy)
    return {
        kind: Counts(
            right=sum(row.case.kind == kind and row.named for row in rows),
            wrong=sum(kind in row.false_kinds for row in rows),
            missed=sum(row.case.kind == kind and not row.named for row in rows),
        )
        for kind in kinds
    }


def of_rules(rows: Sequence[Judged]) -> dict[str, Counts]:
    """For each rule that was expected or reported wrongly."""
    rules = sorted({rule for row in rows for rule in (*row.case.expect, *row.false)})
    return {
        rule: Counts(*(sum(rule in getattr(row, part) for row in rows) for part in ("found", "false", "missed")))
        for rule in rules
    }


def macro_f1(rows: Sequence[Judged]) -> float | None:
    """The mean of the kinds' F1; None without a faulty case."""
    scores = [counts.f1 or 0.0 for counts in of_kinds(rows).values()]
    return statistics.fmean(scores) if scores else None


def top_1(rows: Sequence[Judged]) -> float | None:
    """The share of faulty cases whose kind is ranked first."""
    firsts = [row.is_first for row in rows if row.is_first is not None]
    return ratio(sum(firsts), len(firsts))


def false_alarms(rows: Sequence[Judged]) -> float | None:
    """The share of healthy cases in which any rule was reported that had to stay silent."""
    alarms = [bool(row.false) for row in rows if row.case.is_healthy]
    return ratio(sum(alarms), len(alarms))


SCORES: Mapping[str, Callable[[Sequence[Judged]], float | None]] = {
    "macro-F1 over kinds": macro_f1,
    "top-1 cause": top_1,
    "false alarms on healthy twins": false_alarms,
}


def summary(rows: Sequence[Judged]) -> dict[str, tuple[float, float, float]]:
    """Each score that one of the cases is about, with its 95 % bootstrap interval over cases."""
    return {
        name: measuring.interval(rows, lambda sample, score=score: score(sample) or 0.0)
        for name, score in SCORES.items()
        if score(rows) is not None
    }
