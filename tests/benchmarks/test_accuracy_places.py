"""benchmarks/accuracy/places.py: what of a report points at the place of a fault, and what is an alarm."""

from __future__ import annotations

import importlib
import json
from dataclasses import replace

import pytest


@pytest.fixture
def places(imported):
    return imported("benchmarks.accuracy.places")


@pytest.fixture
def cases(places):
    return importlib.import_module("benchmarks.accuracy.cases")


@pytest.fixture
def main(places):
    return importlib.import_module("benchmarks.accuracy.__main__")


@pytest.fixture
def judge(places, cases):
    labels = cases.Labels((), {"unlisted": ()}, ("EN009",))

    def judged(document, *, is_healthy=False, lines=("net/loss.py:20-24", "net/train.py:50"), expect=("PR016",)):
        fault = {} if is_healthy else {"ms_faulty": (40.0, 44.0, 42.0), "ms_repaired": (21.0, 20.0, 22.0)}
        case = cases.Case(
            "a" if document is None else "b",
            "blind-7",
            "healthy" if is_healthy else "unlisted",
            "raw",
            why="why",
            lines=() if is_healthy else lines,
            expect=() if is_healthy else expect,
            **fault,
        )
        return places.judge(case, labels, {"outcome": "completed", "wall_s": 1.0, **places.answer(document)})

    return judged


def finding(rule, file=None, line=None):
    return {"rule": rule, "message": "said", "location": None if file is None else {"file": file, "line": line}}


def row(file, line, end_line=None, share=0.1):
    return {"file": file, "line": line, "end_line": end_line or line, "function": "f", "share": share, "ops": 3.0}


def report(*findings, hottest=None, lines=(), function=None):
    verdict = {"bound": "forward", "share": 0.5, "first": None, "hottest": hottest, "function": function}
    return {"findings": list(findings), "verdict": verdict, "step": {"mean_ms": 10.0, "lines": list(lines)}}


def hot(file, line):
    return {"file": file, "line": line, "share": 0.4}


def both(judged):
    return judged.is_first, judged.is_anywhere


@pytest.mark.parametrize(
    ("line", "is_hit"), [(17, False), (18, True), (20, True), (22, True), (26, True), (27, False), (48, False)]
)
def test_a_place_within_two_lines_is_the_place(judge, line, is_hit):
    assert both(judge(report(finding("HS001", "net/loss.py", line)))) == (is_hit, is_hit)


def test_each_of_the_places_counts(judge):
    assert both(judge(report(finding("HS001", "net/train.py", 50)))) == (True, True)


@pytest.mark.parametrize(
    ("file", "is_hit"),
    [
        ("/tmp/run/net/loss.py", True),
        ("./net/loss.py", True),
        ("loss.py", True),
        ("../run/net/loss.py", True),
        ("other/loss.py", False),
        ("/usr/lib/python/torch/nn/modules/loss.py", False),
        ("net/my_loss.py", False),
        ("net/train.py", False),
    ],
)
def test_paths_are_absolute_or_named_from_another_folder(judge, file, is_hit):
    assert judge(report(finding("HS001", file, 22))).is_first is is_hit


def test_a_place_that_a_sentence_names_counts_as_its_own(judge):
    said = {**finding("DL001", "net/train.py", 9), "message": "data wait is 64 % of the step; in __iter__ (loss.py:20)"}
    assert both(judge(report(said))) == (True, True)
    assert both(judge(report(finding("DL001", "net/train.py", 9), said))) == (False, True)
    assert both(judge(report({**said, "message": "wait is 64 % in __iter__ (loss.py:30), not loss.py"}))) == (
        False,
        False,
    )


def test_an_expected_rule_needs_no_place(judge):
    assert both(judge(report(finding("PR016")))) == (True, True)
    assert both(judge(report(finding("DL001"), finding("PR016")))) == (False, True)
    assert both(judge(report(finding("PR016")), expect=())) == (False, False)


def test_the_first_finding_counts_and_not_the_hottest_line_beside_it(judge):
    there = hot("net/loss.py", 20)
    assert both(judge(report(finding("DL001", "net/train.py", 9), hottest=there))) == (False, False)
    assert both(judge(report(hottest=there))) == (True, True)
    assert both(judge(report(hottest=hot("net/train.py", 9)))) == (False, False)


def test_findings_of_unscored_rules_are_as_good_as_none(judge):
    assert judge(report(finding("EN009"), hottest=hot("net/loss.py", 20))).is_first
    assert judge(report(finding("EN009"), finding("HS001", "net/loss.py", 20))).is_first
    assert not judge(report(finding("EN009", "net/loss.py", 20))).is_anywhere


def test_a_function_that_the_verdict_names_stands_before_the_hottest_line(judge):
    there, elsewhere = hot("net/loss.py", 20), hot("net/train.py", 9)
    assert judge(report(hottest=elsewhere, function=there)).is_first
    assert not judge(report(hottest=there, function=elsewhere)).is_first
    assert not judge(report(finding("DL001", "net/train.py", 9), hottest=elsewhere, function=there)).is_first


def test_a_later_finding_is_anywhere(judge):
    said = report(finding("DL001", "net/train.py", 9), finding("HS001", "net/loss.py", 20))
    assert both(judge(said)) == (False, True)


@pytest.mark.parametrize(("before", "is_hit"), [(0, True), (5, True), (6, False)])
def test_only_the_first_six_lines_of_the_table_count(judge, before, is_hit):
    lines = [row("net/train.py", 9)] * before + [row("net/loss.py", 21)]
    assert both(judge(report(finding("DL001"), lines=lines))) == (False, is_hit)


def test_a_statement_over_many_lines_counts_where_it_overlaps(judge):
    assert judge(report(finding("DL001"), lines=[row("net/loss.py", 10, end_line=18)])).is_anywhere
    assert judge(report(finding("DL001"), lines=[row("net/loss.py", 10, end_line=40)])).is_anywhere
    assert not judge(report(finding("DL001"), lines=[row("net/loss.py", 10, end_line=17)])).is_anywhere


def test_reports_without_lines_a_step_or_a_verdict_are_read(judge):
    assert both(judge({"findings": [], "verdict": None, "step": None})) == (False, False)
    old = {"findings": [finding("PR016")], "verdict": {"bound": "forward"}, "step": {"mean_ms": 3.0}}
    assert both(judge(old)) == (True, True)
    assert both(judge({"findings": [{"rule": "DL001", "message": "said"}], "verdict": None, "step": None})) == (
        False,
        False,
    )


def test_a_fault_without_a_report_is_missed(judge):
    assert both(judge(None)) == (False, False)


def test_a_fault_costs_what_its_authors_figures_say(judge):
    assert judge(report()).share == pytest.approx(0.5)


def test_any_finding_of_a_healthy_case_is_an_alarm_and_hot_spots_alone_are_a_question(judge):
    def healthy(*rules):
        return judge(report(*map(finding, rules), hottest=hot("net/loss.py", 20)), is_healthy=True)

    assert (healthy("EN009").alarms, healthy("EN009").is_question) == ((), False)
    assert (healthy("HS001", "HS001").alarms, healthy("HS001", "HS001").is_question) == (("HS001",), True)
    assert (healthy("HS001", "DL001").alarms, healthy("HS001", "DL001").is_question) == (("HS001", "DL001"), False)
    assert judge(None, is_healthy=True).alarms is None


@pytest.fixture
def rows(judge):
    return [
        judge(report(finding("HS001", "net/loss.py", 20))),
        judge(report(finding("DL001"), finding("PR016"))),
        judge(report()),
        judge(report(), is_healthy=True),
        judge(report(finding("HS001")), is_healthy=True),
        judge(report(finding("CP004")), is_healthy=True),
        judge(None, is_healthy=True),
    ]


def test_the_scores_are_shares_of_faults_and_of_healthy_cases_with_a_report(places, rows):
    said = places.summary(rows)
    counts = {name: (one["count"], one["of"]) for name, one in said.items()}
    assert counts == {"first": (1, 3), "anywhere": (2, 3), "alarms": (2, 3), "questions": (1, 3)}
    assert all(one["low"] < one["share"] < one["high"] for one in said.values())
    assert places.summary(rows[:3])["alarms"] == {"count": 0, "of": 0, "share": None, "low": None, "high": None}


@pytest.mark.parametrize(
    ("count", "of", "low", "high"),
    [(0, 10, 0.0, 0.2775), (10, 10, 0.7225, 1.0), (5, 10, 0.2366, 0.7634), (81, 263, 0.2553, 0.3662)],
)
def test_intervals_are_wilsons(places, count, of, low, high):
    assert places.wilson(count, of) == (pytest.approx(low, abs=1e-4), pytest.approx(high, abs=1e-4))


def test_the_text_says_what_was_reported_first_and_what_should_not_have_been(main, rows):
    results = {name: {"outcome": "completed", "wall_s": 12.4, "reported": [], "first": []} for name in "ab"}
    text = main.text([], rows, results, ["left_out"])
    assert "| b    | 50 %    | yes   | yes      | HS001 loss.py:20 | completed | 12 s |" in text
    assert "| b    | 50 %    | NO    | yes      | DL001 " in text
    assert "question: HS001" in text and "ALARM: CP004" in text
    assert "1 of 3" in text and "33 % (6 % to 79 %)" in text
    assert "for want of a report: a" in text and "left_out" in text
    assert "macro-F1" not in text


def test_the_result_is_json_beside_that_of_the_other_cases(main, rows):
    results = {name: {"outcome": "completed", "wall_s": 1.0, "reported": ["HS001"], "first": []} for name in "ab"}
    document = json.loads(json.dumps(main.as_json([], rows, results, [])))
    assert document["cases"] == [] and document["by_place"]["scores"]["first"]["count"] == 1
    assert [one["alarms"] for one in document["by_place"]["cases"]] == [
        None,
        None,
        None,
        [],
        ["HS001"],
        ["CP004"],
        None,
    ]
    assert "by_place" not in main.as_json([], [], results, [])


def test_a_healthy_case_by_place_is_held_by_its_author_and_a_fault_by_its_figures(main, judge):
    assert main.holds(judge(report(), is_healthy=True).case, {})
    fault = judge(report()).case
    assert main.holds(fault, {})
    assert not main.holds(replace(fault, ms_repaired=(40.0, 44.0, 41.0)), {})
