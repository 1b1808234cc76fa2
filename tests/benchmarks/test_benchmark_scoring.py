"""The scoring of benchmarks/corpus.py: what counts as found, missed and false, and what ranks first."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from typing import Any

import pytest

FILE = Path(__file__).parents[2] / "benchmarks" / "scoring.py"
SPEC = importlib.util.spec_from_file_location("benchmark_scoring", FILE)
assert SPEC is not None and SPEC.loader is not None
scoring = importlib.util.module_from_spec(SPEC)
sys.modules["benchmark_scoring"] = scoring
SPEC.loader.exec_module(scoring)

LABEL = {
    "first": "BA001",
    "first_also": ["BA005"],
    "not_first": ["GA004"],
    "expect": ["BA001", "ME001"],
    "expect_gpu": ["PR002"],
    "silent": ["DL001", "PR002"],
    "maybe": ["CP001"],
}


def document(
    *rules: str, first: tuple[str, ...] | None = None, gains: tuple[float | None, ...] = (), **more: Any
) -> dict[str, Any]:
    """A diagnosis with one recommendation for each of `rules`, or `first` in front of them."""
    groups = [first] if first is not None else [(rule,) for rule in rules]
    speedups = [*gains, *[None] * len(groups)]
    step = {"mean_ms": 100.0, "breakdown_ms": {"forward": 30.0, "recompute": None, "backward": 40.0, "optimizer": 5.0}}
    return {
        "outcome": "completed",
        "findings": [{"rule": rule} for rule in rules],
        "skipped": [],
        "facts": {"device.type": "cpu"},
        "step": step,
        "recommendations": [
            {"rules": list(group), "gain": None if speedup is None else {"speedup": speedup}}
            for group, speedup in zip(groups, speedups, strict=False)
        ],
        **more,
    }


def test_findings_are_sorted_by_label() -> None:
    given = document("BA001", "DL001", "EV001", "CP001", "BA005", skipped=[{"rule": "ME001"}, {"rule": "CO001"}])
    one = scoring.score(LABEL, given)
    assert (one.found, one.missed, one.false) == (("BA001",), ("ME001",), ("DL001",))
    assert (one.unlabelled, one.undecided) == (("EV001",), ("ME001",))


def test_a_rule_that_is_silent_on_a_cpu_may_be_expected_on_a_gpu() -> None:
    on_gpu = scoring.score(LABEL, document("PR002", facts={"device.type": "cuda"}))
    assert (on_gpu.found, on_gpu.false) == (("PR002",), ())
    assert scoring.score(LABEL, document("PR002")).false == ("PR002",)


@pytest.mark.parametrize(
    ("label", "given", "hit"),
    [
        ({}, document("BA001"), True),
        ({}, document("BA005"), True),
        ({}, document("ME001", "BA001"), False),
        ({}, document(), False),
        ({}, document("BA001", "GA004", first=("BA001", "GA004")), False),
        ({"first": None}, document("ME001"), None),
        ({"first": None}, document("GA004"), False),
        ({"first": "nothing"}, document(), True),
        ({"first": "nothing"}, document("CP001"), True),
        ({"first": "nothing"}, document("ME001"), False),
        ({"first": "compute-bound"}, document("CP001"), True),
        ({"first": "compute-bound"}, document("DL001"), False),
        ({"first": "compute-bound"}, document(step=None), False),
        (
            {"first": "compute-bound"},
            document(step={"mean_ms": 100.0, "breakdown_ms": dict.fromkeys(scoring.COMPUTE, 12.5)}),
            False,
        ),
    ],
)
def test_first_cause(label: dict[str, Any], given: dict[str, Any], hit: bool | None) -> None:
    assert scoring.first_hit({**LABEL, **label}, given) is hit


def test_largest_gain_ignores_recommendations_without_one() -> None:
    assert scoring.largest_of(document("CP001", "ME001", "BA001", gains=(None, 1.2, 1.9))) == ("BA001",)
    assert scoring.largest_of(document("CP001")) == ()


def test_without_a_report_everything_is_missed() -> None:
    one = scoring.score(LABEL, None, "exit_3")
    assert (one.outcome, one.first_hit, one.missed) == ("exit_3", False, ("BA001", "ME001"))
    assert scoring.score({**LABEL, "first": None}, None).first_hit is None


def test_totals() -> None:
    scores = [
        scoring.score(LABEL, document("BA001", "DL001")),
        scoring.score({**LABEL, "first": None}, document("ME001", "BA001", "EV001")),
        scoring.score(LABEL, None, "exit_3"),
    ]
    assert scoring.totals(scores) == {
        "cases": 3,
        "diagnosed": 2,
        "found": 3,
        "missed": 3,
        "false": 1,
        "unlabelled": 1,
        "precision": 0.75,
        "recall": 0.5,
        "first_rate": 0.5,
    }
    assert scoring.totals([])["precision"] is None
