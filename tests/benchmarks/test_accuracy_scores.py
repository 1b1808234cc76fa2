"""benchmarks/accuracy/scores.py and its tables: which calls count as right, wrong and missed."""

from __future__ import annotations

import importlib

import pytest


@pytest.fixture
def scores(imported):
    return imported("benchmarks.accuracy.scores")


@pytest.fixture
def main(scores):
    return importlib.import_module("benchmarks.accuracy.__main__")


@pytest.fixture
def judge(scores):
    cases = importlib.import_module("benchmarks.accuracy.cases")
    kinds = {"padding": ("BA001", "BA005"), "workers": ("DL001",), "threads": ("CP001",)}
    labels = cases.Labels((), kinds, ("EN009",))

    def judged(kind, reported, *, first=(), expect=(), also=(), is_static=False):
        name = "static" if is_static else "own"
        case = cases.Case(kind, name, kind, "raw", "", "why", expect=tuple(expect), also=tuple(also))
        return scores.judge(case, labels, reported, first)

    return judged


def test_what_is_neither_expected_nor_allowed_had_to_stay_silent(judge):
    row = judge("padding", ["BA005", "DL001", "CP001", "EN009"], expect=["BA005", "BA001"], also=["CP001"])
    assert (row.found, row.missed, row.false) == (("BA005",), ("BA001",), ("DL001",))
    assert row.named and row.false_kinds == ("workers",)


def test_another_rule_of_the_kind_names_it(judge):
    row = judge("padding", ["BA001"], expect=["BA005"], also=["BA001"])
    assert row.named and row.missed == ("BA005",)


@pytest.mark.parametrize(
    ("first", "is_first"), [(["BA001"], True), (["DL001", "BA005"], True), (["DL001"], False), ([], False)]
)
def test_rank_one_is_right_where_it_names_the_kind(judge, first, is_first):
    assert judge("padding", ["BA005"], first=first, expect=["BA005"]).is_first is is_first


def test_nothing_is_ranked_in_healthy_and_static_cases(judge):
    assert judge("healthy", ["DL001"], first=["DL001"]).is_first is None
    assert judge("padding", ["BA005"], expect=["BA005"], is_static=True).is_first is None


@pytest.fixture
def rows(judge):
    return [
        judge("padding", ["BA005"], first=["BA005"], expect=["BA005"]),
        judge("padding", ["DL001"], first=["DL001"], expect=["BA005"]),
        judge("workers", ["DL001"], first=["DL001"], expect=["DL001"]),
        judge("healthy", ["BA001"]),
        judge("healthy", []),
    ]


def test_kinds_are_named_rightly_wrongly_or_missed(scores, rows):
    kinds = scores.of_kinds(rows)
    assert kinds == {"padding": scores.Counts(1, 1, 1), "workers": scores.Counts(1, 1, 0)}
    assert kinds["padding"].f1 == pytest.approx(0.5) and kinds["workers"].f1 == pytest.approx(2 / 3)
    assert scores.macro_f1(rows) == pytest.approx((0.5 + 2 / 3) / 2)


def test_rules_are_counted_wherever_they_are_expected_or_wrong(scores, rows):
    assert scores.of_rules(rows) == {
        "BA001": scores.Counts(0, 1, 0),
        "BA005": scores.Counts(1, 0, 1),
        "DL001": scores.Counts(1, 1, 0),
    }


def test_a_rate_without_a_case_is_none(scores, rows):
    assert scores.Counts(0, 0, 3).precision is None and scores.Counts(0, 2, 0).recall is None
    assert scores.top_1(rows) == pytest.approx(2 / 3) and scores.false_alarms(rows) == pytest.approx(0.5)
    assert (scores.macro_f1(rows[3:]), scores.top_1(rows[3:]), scores.false_alarms(rows[:3])) == (None, None, None)


def test_the_summary_has_intervals_of_what_can_be_said(scores, rows):
    said = scores.summary(rows)
    assert list(said) == list(scores.SCORES)
    for value, low, high in said.values():
        assert low <= value <= high
    assert list(scores.summary(rows[3:])) == ["false alarms on healthy twins"]


def test_the_text_says_everything_that_went_wrong(main, rows):
    results = {row.case.id: {"reported": [], "first": ["DL001"], "outcome": "completed", "wall_s": 1.0} for row in rows}
    text = main.text(rows, [], results, ["left_out"])
    assert "NO: DL001" in text and "left_out" in text
    assert "| padding | 1     | 1     | 1      | 50 %" in text
    assert "| cases                         | 5" in text


@pytest.mark.parametrize("reached", [None, 0.69])
def test_too_low_a_score_is_an_error(main, reached):
    with pytest.raises(SystemExit, match="at least 70 %"):
        main.reach(reached, 0.7)


def test_a_score_that_is_high_enough_is_none(main):
    main.reach(0.7, 0.7)
