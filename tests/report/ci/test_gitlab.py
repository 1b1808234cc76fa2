"""GitLab's Code Quality report, against its documentation (schemas/gitlab-code-quality.schema.json)."""

from __future__ import annotations

import json
from typing import Any

import jsonschema
import pytest
from check_builders import CALL, CASES, CHECKED, GOLDEN, SCHEMAS, WORKERS, bundle, checked, finding
from hypothesis import given, settings
from msgspec.structs import replace

from autotune.model.checked import Checked
from autotune.model.rule import Severity
from autotune.report import render

SCHEMA = json.loads((SCHEMAS / "gitlab-code-quality.schema.json").read_text(encoding="utf-8"))


def issues(made: Checked) -> list[dict[str, Any]]:
    found = json.loads(render("check", made, "gitlab"))
    jsonschema.Draft202012Validator(SCHEMA).validate(found)
    return found


def test_the_schema_is_a_schema() -> None:
    jsonschema.Draft202012Validator.check_schema(SCHEMA)


@pytest.mark.parametrize("name", CASES)
def test_golden(name: str) -> None:
    assert issues(CASES[name]()) == json.loads((GOLDEN / f"{name}.gitlab.json").read_text(encoding="utf-8"))


@settings(max_examples=60, deadline=None)
@given(CHECKED)
def test_every_report_is_valid_and_no_issue_hides_another(made: Checked) -> None:
    found = issues(made)
    assert len({each["fingerprint"] for each in found}) == len(found) == len(made.findings)
    json.dumps(found, ensure_ascii=False).encode("utf-8")


@pytest.mark.parametrize(
    ("severity", "expected"), list(zip(Severity, ["blocker", "critical", "major", "minor", "info"], strict=True))
)
def test_severities(severity: Severity, expected: str) -> None:
    made = finding(replace(WORKERS, severity=severity), "", CALL)
    assert [each["severity"] for each in issues(checked(bundle("train.py", made)))] == [expected]
