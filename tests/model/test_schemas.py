"""The JSON Schemas are those that the records make, and describe what no record's type says."""

from __future__ import annotations

import json
from typing import Annotated, NotRequired, TypedDict

import jsonschema
import pytest
import schemas
from msgspec import Meta


def test_the_request_of_watched_processes_is_as_the_catalogue_says() -> None:
    written = (schemas.ROOT / schemas.WATCHED).read_text(encoding="utf-8")
    assert written == schemas.watched_request(), "run: python tests/schemas.py"


@pytest.mark.parametrize("one", schemas.SCHEMAS, ids=lambda one: one.file)
def test_the_file_is_as_the_records_say(one: schemas.Schema) -> None:
    written = (schemas.ROOT / one.file).read_text(encoding="utf-8")
    assert written == schemas.text(one), "run: python tests/schemas.py"
    jsonschema.Draft202012Validator.check_schema(json.loads(written))


class Part(TypedDict):
    """One part."""

    size: Annotated[int, Meta(ge=1)] | None
    """Bytes; null
    is unknown."""


class Named(Part):
    """A part with a name."""

    name: NotRequired[str]
    """What it is called."""

    parts: list[Part]


def test_fields_are_described_one_by_one_and_other_keys_refused() -> None:
    made = schemas.schema(schemas.Schema("", Named, "Title"))
    assert made["title"] == "Title"
    assert made["description"] == "A part with a name."
    assert list(made["properties"]) == ["size", "name", "parts"]
    assert made["properties"]["size"]["description"] == "Bytes; null is unknown."
    assert made["properties"]["name"] == {"type": "string", "description": "What it is called."}
    assert made["required"] == ["size", "parts"]
    validator = jsonschema.Draft202012Validator(made)
    assert validator.is_valid({"size": 2, "parts": [{"size": None}]})
    for wrong in ({"size": 0, "parts": []}, {"size": 1, "parts": [{"size": 1, "more": 2}]}, {"parts": []}):
        assert not validator.is_valid(wrong)
