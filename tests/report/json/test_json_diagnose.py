"""The JSON output: the schema, the sum of the breakdown, unknown values, subjects and order."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from msgspec.structs import replace
from report_builders import (
    TRAIN,
    change,
    evidence,
    finding,
    gain,
    passed,
    recommendation,
    report,
    rule,
    run,
    skipped,
    step,
)
from report_cases import CASES

import autotune.report
from autotune.model.evidence import Location, Setting
from autotune.model.finding import GeneratedScript, Install
from autotune.model.report import OUTCOMES, PHASES, Collective, HotFunction, LateRank, LineTable, Rank, Report
from autotune.report import render

SCHEMA = json.loads((Path(autotune.report.__file__).parent / "json" / "report.schema.json").read_text(encoding="utf-8"))
TOP = [
    "schema",
    "tool",
    "command",
    "outcome",
    "machine",
    "software",
    "settings",
    "verdict",
    "step",
    "ranks",
    "hosts",
    "missing_ranks",
    "collectives",
    "devices",
    "facts",
    "findings",
    "skipped",
    "passed",
    "recommendations",
    "run",
    "startup",
    "outlook",
    "expected",
    "overhead",
    "patch",
    "diff",
    "next",
]


def parsed(made: Report) -> dict[str, Any]:
    def refuse(constant: str) -> None:
        raise AssertionError(f"{constant} is no JSON")

    found: dict[str, Any] = json.loads(render("diagnose", made, "json"), parse_constant=refuse)
    return found


def bare(**given: Any) -> Report:
    return report(run=run(), **{"step": step(forward=1.0), **given})


def test_the_schema_is_a_schema() -> None:
    jsonschema.Draft202012Validator.check_schema(SCHEMA)


@pytest.mark.parametrize("name", CASES)
def test_every_case_is_valid(name: str) -> None:
    jsonschema.Draft202012Validator(SCHEMA).validate(parsed(CASES[name]()))


def test_the_schema_knows_every_outcome() -> None:
    assert set(SCHEMA["properties"]["outcome"]["enum"]) == set(OUTCOMES)


def test_the_schema_refuses_other_keys_and_values() -> None:
    validator = jsonschema.Draft202012Validator(SCHEMA)
    good = parsed(CASES["full"]())
    for bad in (
        {**good, "extra": 1},
        {**good, "schema": 2},
        {**good, "outcome": "fine"},
        {key: value for key, value in good.items() if key != "run"},
    ):
        assert not validator.is_valid(bad)


@pytest.mark.parametrize("name", CASES)
def test_keys_are_those_of_the_contract_in_its_order(name: str) -> None:
    found = parsed(CASES[name]())
    assert list(found) == TOP == list(SCHEMA["properties"])
    assert found["schema"] == 1
    assert list(found["facts"]) == sorted(found["facts"])


def test_one_object_in_one_line() -> None:
    text = render("diagnose", CASES["full"](), "json")
    assert text.count("\n") == 1
    assert text.endswith("}\n")


@pytest.mark.parametrize("name", ["full", "healthy", "skipped_only", "ended_early", "raw_loop"])
def test_the_breakdown_sums_to_the_mean(name: str) -> None:
    found = parsed(CASES[name]())["step"]
    assert list(found["breakdown_ms"]) == list(PHASES)
    known = [ms for ms in found["breakdown_ms"].values() if ms is not None]
    assert sum(known) == pytest.approx(found["mean_ms"], rel=0.01)


def test_an_unobserved_phase_is_null_and_a_phase_without_time_is_zero() -> None:
    found = parsed(bare(step=step(forward=2.0, checkpoint=0.0)))["step"]["breakdown_ms"]
    assert found["checkpoint"] == 0.0
    assert found["evaluation"] is None


def test_unknown_values_are_null() -> None:
    found = parsed(report(run=run(overhead_share=None, wall_s=None, error="", python_from=""), step=None))
    assert found["step"] is None
    assert found["patch"] is None
    assert found["overhead"] == {"share": None, "basis": None}
    assert [found["run"][key] for key in ("wall_s", "planned_steps", "error", "python_from")] == [None] * 4


def test_the_payback_says_what_it_rests_on_and_whether_it_is_worth_it() -> None:
    found = parsed(CASES["outlook"]())["outlook"]
    assert (found["payback"]["basis"], found["payback"]["worth_it"]) == ("measured", True)
    assert found["restart"]["basis"] == "measured"
    made = CASES["outlook"]()
    ahead = made.outlook
    assert ahead.payback
    short = replace(ahead.payback, basis="bound", high_s=10.0, least_s=60.0)
    unknown = replace(ahead.payback, high_s=None)
    for payback, expected in ((short, ("bound", False)), (unknown, ("measured", None))):
        told = parsed(replace(made, outlook=replace(ahead, payback=payback)))
        jsonschema.Draft202012Validator(SCHEMA).validate(told)
        assert (told["outlook"]["payback"]["basis"], told["outlook"]["payback"]["worth_it"]) == expected


@pytest.mark.parametrize("value", [float("nan"), float("inf"), float("-inf")])
def test_what_is_no_number_is_null(value: float) -> None:
    found = parsed(bare(evidence=evidence({"run": {"step.noise_share": value}}), price=value))
    assert found["facts"] == {"step.noise_share": None}
    assert found["run"]["price_per_hour"] is None


@pytest.mark.parametrize(
    ("facts", "expected"),
    [
        ({"run": {"device.type": "cpu"}}, {"device.type": "cpu"}),
        ({TRAIN: {"loader.wait_share": 0.5}, "loader#1": {"loader.wait_share": 0.1}},
         {"loader.wait_share": 0.5, "loader.wait_share@loader#1": 0.1}),
        ({"loader#0": {"loader.wait_share": 0.5}, "loader#1": {"loader.wait_share": 0.1}},
         {"loader.wait_share": 0.5, "loader.wait_share@loader#1": 0.1}),
        ({"loader#3": {"loader.wait_share": 0.5}}, {"loader.wait_share": 0.5}),
        ({"loader#3": {"loader.width": 5}, "loader#4": {"loader.width": 6}},
         {"loader.width@loader#3": 5, "loader.width@loader#4": 6}),
        ({"run": {"device.capability": (9, 0)}}, {"device.capability": "9.0"}),
    ],
    ids=["run", "train", "first", "only", "none-is-main", "version"],
)  # fmt: skip
def test_facts_are_named_by_subject(facts: dict[str, Any], expected: dict[str, Any]) -> None:
    assert parsed(bare(evidence=evidence(facts)))["facts"] == expected


def test_a_setting_has_its_origin_and_place() -> None:
    known = Setting("loader.num_workers", TRAIN, 0, "observed", Location("train.py", 23), True)
    unset = Setting("train.compile", "run", None, "default")
    assert parsed(bare(evidence=evidence(settings=(known, unset))))["settings"] == {
        "loader.num_workers": {
            "value": 0,
            "origin": "observed",
            "location": {"file": "train.py", "line": 23},
            "trusted": True,
        },
        "train.compile": {"value": None, "origin": "default", "location": None, "trusted": False},
    }


def test_a_finding_and_its_recommendation() -> None:
    won = gain(2.0, 1.5, 2.5, "modelled", 60.0)
    edit = change("loader.num_workers", None, 2, ("train.py", 23), spelling="num_workers", note="n")
    found = finding(rule(), "72 % wait", edit, subject=TRAIN, advice=("or stream",), gain=won)
    made = parsed(report(recommendation(1, found, after=None), run=run(), step=step(forward=1.0)))
    short = {"setting": "loader.num_workers", "old": None, "new": 2, "effect": "equivalent"}
    gained = {"speedup": 2.0, "low": 1.5, "high": 2.5, "saved_s": 60.0, "basis": "modelled"}
    assert made["findings"] == [
        {
            "rule": "DL001",
            "subject": TRAIN,
            "name": "batches-in-the-main-process",
            "severity": "high",
            "confidence": "high",
            "message": "72 % wait",
            "location": None,
            "changes": [short],
            "gain": gained,
            "install": None,
            "script": None,
        }
    ]
    place = {"location": {"file": "train.py", "line": 23}, "spelling": "num_workers", "note": "n"}
    assert made["recommendations"] == [
        {
            "number": 1,
            "rules": ["DL001"],
            "effect": "equivalent",
            "changes": [{**short, **place}],
            "advice": ["or stream"],
            "gain": gained,
            "after": None,
        }
    ]


@pytest.mark.parametrize(
    ("install", "expected"),
    [
        (Install("p", True, "pip install p==1", "it is published"),
         {"command": "pip install p==1", "why": "it is published"}),
        (Install("p", None, "", "cannot tell: x"), {"command": None, "why": "cannot tell: x"}),
    ],
)  # fmt: skip
def test_what_advice_needs(install: Install, expected: dict[str, Any]) -> None:
    script = GeneratedScript("stage_data.py", "text", path="/runs/1/stage_data.py")
    found = replace(finding(rule(), "m"), install=install, script=script)
    made = parsed(report(recommendation(1, found), run=run(), step=step(forward=1.0)))
    jsonschema.Draft202012Validator(SCHEMA).validate(made)
    assert made["findings"][0]["install"] == expected
    assert made["findings"][0]["script"] == "/runs/1/stage_data.py"


@pytest.mark.parametrize(("steps", "basis"), [(9, "modelled"), (10, "measured")])
def test_few_steps_make_no_gain_measured(steps: int, basis: str) -> None:
    found = finding(rule(), "m", gain=gain(2.0, 1.5, 2.5, "measured"))
    made = parsed(report(recommendation(1, found), run=run(), step=step(steps, forward=1.0)))
    assert made["findings"][0]["gain"]["basis"] == basis


def test_a_rule_passed_only_where_it_was_silent_everywhere() -> None:
    made = bare(
        passed=(*passed("DL001", "DL002", "PR001"), *passed("PR001", subject=TRAIN)),
        skipped=(skipped("DL002", "loader.batch_ms", subject="loader#1"),),
    )
    found = parsed(made)
    assert found["passed"] == ["DL001", "PR001"]
    assert found["skipped"] == [{"rule": "DL002", "subject": "loader#1", "needs": ["loader.batch_ms"]}]


def test_the_verdict_names_the_largest_part_and_the_first_finding() -> None:
    found = parsed(bare(step=step(data_wait=6.0, forward=1.0, backward=3.0)))
    assert found["verdict"] == {"bound": "data_wait", "share": 0.6, "first": None, "hottest": None, "function": None}
    assert parsed(CASES["full"]())["verdict"]["first"] == CASES["full"]().evaluation.findings[0].rule.id
    assert parsed(CASES["out_of_memory"]())["verdict"] is None


def test_the_verdict_has_the_function_that_costs_more_than_any_line() -> None:
    table = LineTable(
        lines=(),
        modules=(),
        known_share=1.0,
        ops=None,
        op_us=None,
        function=HotFunction("train.py", 108, "match", 0.43),
    )
    found = parsed(bare(step=replace(step(forward=10.0), lines=table)))["verdict"]["function"]
    assert found == {"file": "train.py", "line": 108, "function": "match", "share": 0.43}


def test_ranks_and_their_collectives() -> None:
    late = LateRank(40.0, "other", "")
    rows = (
        Rank(0, 100.0, 50.0, "whole", {"other": 50.0}, 45.0, 5.0, 0.0, 64.0, None),
        Rank(1, 100.0, 90.0, "before_communication", {"forward": 90.0}, late=late),
    )
    call = Collective("all_reduce", "/p/train.py", 40, "report", 39.0, 12.0, None)
    whole = replace(bare(), ranks=rows, collectives=(call,))
    found = parsed(whole)
    assert found["ranks"][0]["wait_ms"] == 45.0 and found["ranks"][0]["late"] is None
    assert found["ranks"][1]["wait_ms"] is None
    assert found["ranks"][1]["late"] == {"ms": 40.0, "phase": "other", "line": None}
    assert found["collectives"] == [
        {"name": "all_reduce", "file": "/p/train.py", "line": 40, "function": "report",
         "calls_per_step": 39.0, "ms": 12.0, "wait_ms": None}
    ]  # fmt: skip
    jsonschema.Draft202012Validator(SCHEMA).validate(found)


def test_what_is_expected_and_what_to_type_next_is_there_for_programs() -> None:
    found = parsed(CASES["full"]())
    assert [one["numbers"] for one in found["expected"]] == [[1], [1, 2, 3]]
    first = found["expected"][0]
    assert first["expected_ms"] < first["limit_ms"] < first["now_ms"]
    assert [one["command"] for one in found["next"]] == ["autotune explain ME001", "autotune report last --format html"]
    assert parsed(CASES["healthy"]())["expected"] == []
