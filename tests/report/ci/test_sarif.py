"""SARIF of check, against the parts of the standard that it uses (schemas/sarif.schema.json)."""

from __future__ import annotations

import json
from typing import Any
from urllib.parse import unquote

import jsonschema
import pytest
from check_builders import CALL, CASES, CHECKED, GOLDEN, NO_WORKERS, SCHEMAS, WORKERS, bundle, checked, finding, full
from hypothesis import given, settings
from msgspec.structs import replace

from autotune.model.checked import Checked
from autotune.model.evidence import Location
from autotune.model.rule import Severity
from autotune.report import render

SCHEMA = json.loads((SCHEMAS / "sarif.schema.json").read_text(encoding="utf-8"))


def run(made: Checked) -> dict[str, Any]:
    log = json.loads(render("check", made, "sarif"))
    jsonschema.Draft202012Validator(SCHEMA).validate(log)
    return log["runs"][0]


def results(made: Checked) -> list[dict[str, Any]]:
    return run(made)["results"]


def test_the_schema_is_a_schema() -> None:
    jsonschema.Draft202012Validator.check_schema(SCHEMA)


@pytest.mark.parametrize("name", CASES)
def test_golden(name: str) -> None:
    made = json.loads(render("check", CASES[name](), "sarif"))
    assert made == json.loads((GOLDEN / f"{name}.sarif").read_text(encoding="utf-8"))


@settings(max_examples=60, deadline=None)
@given(CHECKED)
def test_every_result_is_valid(made: Checked) -> None:
    one = run(made)
    rules = one["tool"]["driver"]["rules"]
    assert [rules[each["ruleIndex"]]["id"] for each in one["results"]] == [each["ruleId"] for each in one["results"]]
    marks = [each["partialFingerprints"]["autotune/v1"] for each in one["results"]]
    assert len(set(marks)) == len(marks) == len(made.findings) + sum(len(each.silenced) for each in made.bundles)
    json.dumps(one, ensure_ascii=False).encode("utf-8")


@pytest.mark.parametrize(
    ("severity", "level"), list(zip(Severity, ["error", "error", "warning", "note", "note"], strict=True))
)
def test_the_level_is_the_severity(severity: Severity, level: str) -> None:
    made = finding(replace(WORKERS, severity=severity), "", CALL)
    assert [each["level"] for each in results(checked(bundle("train.py", made)))] == [level]


@pytest.mark.parametrize(
    ("location", "region"),
    [
        (Location("a.py", 3), {"startLine": 3}),
        (Location("a.py", 3, column=5), {"startLine": 3, "startColumn": 5}),
        (Location("a.py", 3, column=5, end_line=3), {"startLine": 3, "startColumn": 5}),
        (Location("a.py", 3, column=5, end_line=9), {"startLine": 3, "startColumn": 5, "endLine": 9}),
    ],
)
def test_the_region_of_a_place(location: Location, region: dict[str, int]) -> None:
    (one,) = results(checked(bundle("a.py", finding(WORKERS, "", location))))
    assert one["locations"][0]["physicalLocation"]["region"] == region


@pytest.mark.parametrize("file", ["a b.py", "ü/train#1.py", "50%.yaml", "a:b.py", "x?y&z=[1].json"])
def test_a_path_is_a_relative_uri(file: str) -> None:
    (one,) = results(checked(bundle(file, finding(WORKERS, ""))))
    artifact = one["locations"][0]["physicalLocation"]["artifactLocation"]
    assert unquote(artifact["uri"]) == file
    assert artifact["uriBaseId"] == "%SRCROOT%"
    assert ":" not in artifact["uri"]


def test_silenced_findings_are_suppressed_with_their_reason() -> None:
    suppressions = {each["ruleId"]: each["suppressions"] for each in results(full()) if "suppressions" in each}
    assert suppressions == {
        "CK003": [{"kind": "inSource", "status": "accepted", "justification": "resumed often"}],
        "PR002": [{"kind": "external", "status": "accepted", "justification": "baseline"}],
    }


def test_places_of_the_facts_are_related_locations() -> None:
    (one,) = results(checked(bundle("train.py", NO_WORKERS)))
    related = [each["physicalLocation"]["artifactLocation"]["uri"] for each in one["relatedLocations"]]
    assert related == ["configs/sft.yaml"]


def test_a_rule_explains_itself() -> None:
    (rule,) = run(checked(bundle("train.py", NO_WORKERS)))["tool"]["driver"]["rules"]
    assert rule["shortDescription"]["text"] == WORKERS.summary
    assert "collates inside next()." in rule["help"]["text"]
    assert "- torch 2.13 utils/data/dataloader.py" in rule["help"]["markdown"]
    assert rule["help"]["text"].endswith("More: autotune explain DL001")


def test_neither_placeholders_nor_links() -> None:
    (one,) = results(checked(bundle("train.py", finding(WORKERS, "{0} see [here](3)", CALL))))
    assert one["message"]["text"] == "{{0}} see [here] (3)"


def test_what_needs_a_run_is_no_result() -> None:
    assert results(CASES["only_skipped"]()) == []
