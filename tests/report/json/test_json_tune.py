from __future__ import annotations

import json
from importlib.resources import files

import jsonschema
import pytest
from msgspec.structs import replace
from tuned_builders import OWN, SPACE, kept, tuned
from verified_builders import CHANGE, verified

from autotune.model.tuned import Axis, Outcome, SearchTrial, SkippedSetting, Space
from autotune.model.verified import LossComparison, LossVerdict, Verdict
from autotune.report.json.tune import render

SCHEMA = json.loads((files("autotune.report.json") / "tune.schema.json").read_text(encoding="utf-8"))


def parsed(found):
    return json.loads(render(found, False, 80))


def test_the_object_is_what_the_schema_says_and_in_its_order() -> None:
    found = parsed(tuned())
    jsonschema.validate(found, SCHEMA)
    assert list(found) == list(SCHEMA["properties"]) == SCHEMA["required"]
    assert found["best"] == {"loader.num_workers": 4, "loader.batch_size": 8, "train.accumulation_steps": 4}
    assert found["changes"] == {"loader.num_workers": 4}
    assert found["verified"] == {"speedup": 1.5, "low": 1.45, "high": 1.55, "losses": "identical"}
    assert found["patch"] == "/home/me/.autotune/runs/r/patch.yaml"
    assert [trial["outcome"] for trial in found["trials"]] == ["completed", "completed", "out_of_memory"]
    assert found["trials"][2]["error"] == "RuntimeError: can't allocate memory"


def test_best_has_nothing_that_does_not_go_with_its_changes() -> None:
    """torch refuses a prefetch factor without workers."""
    points = ({"loader.num_workers": 0}, {"loader.num_workers": 2, "loader.prefetch_factor": 4})
    space = Space((Axis("workers", "loader#train", points, 1),))
    trials = (SearchTrial(0, (1,), Outcome.COMPLETED, 6.0, 100.0), SearchTrial(1, (0,), Outcome.COMPLETED, 6.0, 150.0))
    best = {"loader.num_workers": 0}
    assert parsed(tuned(space=space, trials=trials, best=best))["best"] == best
    assert parsed(kept(space=space, trials=trials, verified=None))["best"] == dict(points[1])


def test_where_nothing_wins_best_is_the_users_own() -> None:
    found = parsed(kept(verified=verified(verdict=Verdict.CANNOT_TELL)))
    assert found["best"] == SPACE.settings(SPACE.current)
    assert (found["changes"], found["verified"], found["patch"]) == ({}, None, None)
    assert found["measured"]["verdict"] == "cannot_tell"


@pytest.mark.parametrize(
    "found",
    [
        kept(verified=None, trials=()),
        kept(verified=None, trials=(), space=Space(())),
        tuned(notes=("a",), dropped=(SkippedSetting("train.num_threads", "it brings nothing"),)),
        tuned(by_hand=(CHANGE,), verified=verified(losses=LossComparison(LossVerdict.NOT_COMPARED, 0, "none seen"))),
        *(tuned(trials=(SearchTrial(0, (0, 0), outcome, 1.0),)) for outcome in Outcome),
        tuned(trials=(OWN,)),
    ],
    ids=lambda found: found.stopped,
)
def test_every_case_is_valid(found) -> None:
    jsonschema.validate(parsed(found), SCHEMA)


def test_losses_that_were_not_compared_are_no_silent_pass() -> None:
    found = parsed(tuned(verified=verified(losses=LossComparison(LossVerdict.NOT_COMPARED, 0, "none seen"))))
    assert found["verified"]["losses"] == "not_compared"
    assert (found["measured"]["losses"], found["measured"]["losses_why"]) == ("not_compared", "none seen")


def test_what_the_proof_leaves_unknown_is_told() -> None:
    found = parsed(tuned(verified=verified(notes=("not known of the winner",))))
    jsonschema.validate(found, SCHEMA)
    assert found["measured"]["notes"] == ["not known of the winner"]


def test_what_is_by_hand_and_not_proven_stands_apart() -> None:
    change = replace(CHANGE, by_hand="num_workers = 4: no place", gain="brings 12 %")
    assert parsed(tuned(by_hand=(change,)))["by_hand"] == [
        {"setting": "loader.num_workers", "new": 4, "how": "num_workers = 4: no place", "gain": "brings 12 %"}
    ]


def test_what_is_unknown_is_null() -> None:
    found = parsed(tuned(trials=(SearchTrial(0, (0, 0), Outcome.FAILED, 1.0),)))["trials"][0]
    assert [found[name] for name in ("samples_per_s", "step_ms", "memory_bytes", "forecast", "error")] == [None] * 5
