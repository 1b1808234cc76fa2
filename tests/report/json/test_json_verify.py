from __future__ import annotations

import json
from importlib.resources import files

import jsonschema
import pytest
from verified_builders import verified

from autotune.model.verified import Clock, LossComparison, LossVerdict, Memory, Resume, Resumed, Verdict
from autotune.report.json.verify import render

SCHEMA = json.loads((files("autotune.report.json") / "verify.schema.json").read_text(encoding="utf-8"))


def parsed(**fields):
    return json.loads(render(verified(**fields), False, 80))


def test_the_object_is_what_the_schema_says_and_in_its_order() -> None:
    found = parsed()
    jsonschema.validate(found, SCHEMA)
    assert list(found) == list(SCHEMA["properties"]) == SCHEMA["required"]
    assert (found["verdict"], found["speedup"], found["low"], found["high"]) == ("faster", 1.5, 1.45, 1.55)
    assert (found["starts"], found["seconds"], found["step_ms"]) == (8, 52.0, {"before": 120.0, "after": 80.0})
    assert found["changes"] == [{"setting": "loader.num_workers", "old": 0, "new": 4, "effect": "equivalent"}]
    assert found["predicted"] == {"speedup": 1.4, "low": 1.2, "high": 1.6, "basis": "modelled"}


@pytest.mark.parametrize(
    "fields",
    [
        {"predicted": None, "changes": ()},
        {"memory": Memory("device", None, None)},
        {"notes": ("a", "b"), "why": "x", "beside": "patch 1 is applied"},
        *({"verdict": verdict} for verdict in Verdict),
        *({"clock": clock, "worth": "x"} for clock in Clock),
        *({"resume": Resume(result, "x")} for result in Resumed),
        *({"losses": LossComparison(sameness, 0, "x")} for sameness in LossVerdict),
        {"losses": LossComparison(LossVerdict.NOT_COMPARED, 12, "x", 20)},
    ],
    ids=str,
)
def test_every_case_is_valid(fields) -> None:
    jsonschema.validate(parsed(**fields), SCHEMA)


def test_what_is_unknown_is_null() -> None:
    found = parsed(predicted=None, memory=Memory("processes", None, 7))
    assert found["predicted"] is found["memory"]["before_bytes"] is found["why"] is found["beside"] is None
    assert found["resume"]["result"] == "not_tried"
