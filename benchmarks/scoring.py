"""What a diagnosis got right, against labels: first cause, expected rules, rules that had to stay silent.

A label is a row with `first` (a rule id; "compute-bound", "nothing", or None: not scored), `first_also`, `not_first`,
`expect`, `expect_gpu` (only on a GPU), `silent` and `maybe` (not scored). All but `first` are lists of rule ids.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

Json = Mapping[str, Any]

COMPUTE = ("forward", "recompute", "backward", "optimizer")
COMPUTE_BOUND = 0.5
"""A run is compute-bound when more than half of its step is compute."""


@dataclass(frozen=True, slots=True)
class Score:
    """One case. `first_hit` is None where the first cause is not scored; `first` is what was ranked first, `largest`
    what has the largest gain of those that have one (the report ranks within groups, by the decision to make).

    `found` and `missed` are expected rules, `false` rules that had to stay silent, `unlabelled` findings of which the
    label says nothing, `undecided` expected or silent rules that the diagnosis skipped for want of a fact.
    """

    outcome: str
    first: tuple[str, ...]
    first_hit: bool | None
    largest: tuple[str, ...]
    found: tuple[str, ...]
    missed: tuple[str, ...]
    false: tuple[str, ...]
    unlabelled: tuple[str, ...]
    undecided: tuple[str, ...]


def score(label: Json, document: Json | None, outcome: str = "no_report") -> Score:
    """Score one diagnosis; without a document everything expected was missed. `outcome` then says why."""
    if document is None:
        hit = None if label.get("first") is None else False
        return Score(outcome, (), hit, (), (), tuple(label["expect"]), (), (), ())
    findings = list(dict.fromkeys(finding["rule"] for finding in document["findings"]))
    is_gpu = document["facts"].get("device.type") == "cuda"
    expected = [*label["expect"], *(label.get("expect_gpu", ()) if is_gpu else ())]
    silent = [rule for rule in label["silent"] if rule not in expected]
    optional = {*label.get("maybe", ()), *first_rules(label)}
    skipped = {one["rule"] for one in document["skipped"]}
    return Score(
        outcome=document["outcome"],
        first=first_of(document),
        first_hit=first_hit(label, document),
        largest=largest_of(document),
        found=tuple(rule for rule in expected if rule in findings),
        missed=tuple(rule for rule in expected if rule not in findings),
        false=tuple(rule for rule in silent if rule in findings),
        unlabelled=tuple(rule for rule in findings if rule not in {*expected, *silent, *optional}),
        undecided=tuple(rule for rule in [*expected, *silent] if rule in skipped and rule not in findings),
    )


def first_rules(label: Json) -> tuple[str, ...]:
    """The rules that may rank first as the cause that the label names."""
    return (label.get("first") or "", *label.get("first_also", ()))


def first_of(document: Json) -> tuple[str, ...]:
    """The rules of the recommendation that the first finding belongs to: what saves most, whoever decides on it."""
    if not document["findings"]:
        return ()
    first = document["findings"][0]["rule"]
    return next((tuple(one["rules"]) for one in document["recommendations"] if first in one["rules"]), (first,))


def largest_of(document: Json) -> tuple[str, ...]:
    """The rules of the recommendation with the largest speed-up."""
    gains = [one for one in document["recommendations"] if one["gain"] is not None]
    return tuple(max(gains, key=lambda one: one["gain"]["speedup"])["rules"]) if gains else ()


def first_hit(label: Json, document: Json) -> bool | None:
    """Whether the first recommendation names the labelled cause; None where the label names none."""
    wanted, first = label.get("first"), first_of(document)
    if any(rule in label.get("not_first", ()) for rule in first):
        return False
    if wanted is None:
        return None
    if wanted == "nothing":
        return not set(first) - set(label.get("maybe", ()))
    if wanted == "compute-bound":
        share = compute_share(document)
        return share is not None and share > COMPUTE_BOUND and not set(first) & set(label["silent"])
    return any(rule in first_rules(label) for rule in first)


def compute_share(document: Json) -> float | None:
    """Forward, recompute, backward and optimizer, of the step."""
    step = document["step"]
    if step is None or not step["mean_ms"]:
        return None
    return sum(step["breakdown_ms"][phase] or 0.0 for phase in COMPUTE) / step["mean_ms"]


def totals(scores: Iterable[Score]) -> dict[str, float | int | None]:
    """Precision (found / (found + false)), recall (found / expected) and the share of first causes that were hit.

    A rate is None where nothing counts towards it. Unlabelled findings count towards no rate; they are only counted.
    """
    rows = list(scores)
    found, missed, false = (sum(len(getattr(row, name)) for row in rows) for name in ("found", "missed", "false"))
    firsts = [row.first_hit for row in rows if row.first_hit is not None]
    return {
        "cases": len(rows),
        "diagnosed": sum(row.outcome in ("completed", "ended_early", "timed_out") for row in rows),
        "found": found,
        "missed": missed,
        "false": false,
        "unlabelled": sum(len(row.unlabelled) for row in rows),
        "precision": rate(found, found + false),
        "recall": rate(found, found + missed),
        "first_rate": rate(sum(firsts), len(firsts)),
    }


def rate(part: int, whole: int) -> float | None:
    return part / whole if whole else None


def names(rules: Sequence[str]) -> str:
    return " ".join(rules)
