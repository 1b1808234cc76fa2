"""The JSON of check: its schema, its likeness to the report of diagnose, unknown values."""

from __future__ import annotations

import json
from importlib.resources import files
from typing import Any

import jsonschema
import pytest
from check_builders import CASES, CHECKED, GOLDEN, full
from hypothesis import given, settings

from autotune.model.checked import Checked
from autotune.report import render


def schema(name: str) -> dict[str, Any]:
    return json.loads((files("autotune.report.json") / name).read_text(encoding="utf-8"))


SCHEMA = schema("check.schema.json")
DIAGNOSE = schema("report.schema.json")


def parsed(made: Checked) -> dict[str, Any]:
    def refuse(constant: str) -> None:
        raise AssertionError(f"{constant} is no JSON")

    return json.loads(render("check", made, "json"), parse_constant=refuse)


def test_the_schema_is_a_schema() -> None:
    jsonschema.Draft202012Validator.check_schema(SCHEMA)


@pytest.mark.parametrize("name", CASES)
def test_golden(name: str) -> None:
    assert parsed(CASES[name]()) == json.loads((GOLDEN / f"{name}.json").read_text(encoding="utf-8"))


@settings(max_examples=60, deadline=None)
@given(CHECKED)
def test_every_result_is_valid_and_one_line(made: Checked) -> None:
    jsonschema.Draft202012Validator(SCHEMA).validate(parsed(made))
    assert render("check", made, "json").count("\n") == 1


def test_keys_keep_the_order_of_the_schema() -> None:
    made = parsed(full())
    assert list(made) == list(SCHEMA["properties"])
    assert list(made["findings"][0]) == list(SCHEMA["$defs"]["FileFinding"]["properties"])


@pytest.mark.parametrize("kind", ["findings", "skipped"])
def test_what_diagnose_has_is_there_with_its_meaning(kind: str) -> None:
    """Without the keys that only check has, each is what the schema of diagnose describes."""
    for each in parsed(full())[kind]:
        known = DIAGNOSE["$defs"]["Finding" if kind == "findings" else "SkippedRule"]
        like_diagnose = {key: each[key] for key in known["required"]}
        if kind == "findings":
            place = like_diagnose["location"]
            like_diagnose["location"] = place and {key: place[key] for key in ("file", "line")}
            like_diagnose["changes"] = [
                {key: change[key] for key in ("setting", "old", "new", "effect")} for change in like_diagnose["changes"]
            ]
        jsonschema.Draft202012Validator({**known, "$defs": DIAGNOSE["$defs"]}).validate(like_diagnose)


def test_the_schema_refuses_another_key() -> None:
    made = parsed(full())
    made["findings"][0]["score"] = 3
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.Draft202012Validator(SCHEMA).validate(made)
