"""What repeated backward passes cost: steps of 10 ms fetch, 20 forward, 30 backward, 5 optimizer."""

from __future__ import annotations

import pytest
from build import recording, steps

from autotune import catalogue
from autotune.derive import derive
from autotune.derive.recording_view import MS

FILE = "/home/me/train.py"
MAIN, CALL = (FILE, 90, "main", 80), (FILE, 12, "hvp", 10)


def sampled(phase, line, function):
    return {"phase": phase, "frames": [(FILE, line, function, 1)], "callee": "", "module": "", "count": 100}


def loop(first, last, carried=()):
    row = {"file": FILE, "line": first, "last": last, "body": first + 1, "kind": "for"}
    return {**row, "carried": list(carried), "fed_back": []}


def facts(again_ms=20, loops=(), passes=42, rows=None, backward_ms=60, looping_frame=1, callee="", one_by_one=None):
    """`backward_ms` of the recorded steps, in which the profiler makes all longer."""
    by = {"looping_frame": looping_frame, "callee": callee, "loops": list(loops)}
    row = {
        "frames": [MAIN, CALL],
        "passes": passes,
        "again_ns": again_ms * MS,
        "nodes": 400,
        "are_of_columns": False,
        **by,
    }
    operations = {
        "steps": 1,
        "wall_ns": 1,
        "backward_ns": backward_ms * MS,
        "rows": [],
        "modules": [],
        "repeated_passes": [row] if rows is None else rows,
        "runs": [],
        "statements": [],
    }
    if one_by_one is not None:
        operations["derived_one_by_one"] = one_by_one
    lines = {
        "lines": {
            "steps": 3,
            "wall_ns": 1,
            "count": 300,
            "rows": [sampled("forward", 85, "main"), sampled("backward", 12, "hvp"), sampled("optimizer", 91, "main")],
            "modules": [],
            "statements": [],
            "loops": [],
        },
        "operations": operations,
    }
    derived = derive([recording(script=steps(4), lines=lines)])
    return {fact.name: fact for fact in derived.facts if fact.name.startswith(("repeated_backward.", "one_by_one."))}


def test_the_share_is_that_of_the_backward_pass_of_the_window():
    found = facts()
    assert found["repeated_backward.share"].value == pytest.approx(30 / 65 * 20 / 60)
    assert found["repeated_backward.passes"].value == 42
    assert found["repeated_backward.where"].value == "hvp (train.py:12)"
    assert [(place.file, place.line) for place in found["repeated_backward.share"].places] == [(FILE, 12)]


def test_the_mean_time_of_a_node_that_ran_again_and_what_the_passes_derive():
    row = {"frames": [MAIN, CALL], "passes": 9, "again_ns": 20 * MS, "looping_frame": 1, "callee": "", "loops": []}
    found = facts(rows=[{**row, "nodes": 400, "are_of_columns": True}])
    assert found["repeated_backward.node_us"].value == 50.0
    assert found["repeated_backward.are_of_columns"].value is True
    assert "repeated_backward.node_us" not in facts(rows=[row])  # of an older Recording


INNER, CARRIED, TRAINING = loop(11, 14), loop(11, 14, ["v"]), loop(82, 95, ["step"])


@pytest.mark.parametrize(
    ("given", "is_carried"),
    [
        ({"callee": "autograd"}, False),
        ({"loops": [INNER]}, False),
        ({"loops": [CARRIED]}, True),
        ({"loops": [INNER, loop(9, 15, ["v"])]}, True),
        ({"loops": [INNER], "callee": "lightning"}, False),
        ({"loops": [INNER], "callee": "scipy"}, None),
        ({"callee": "scipy"}, None),
        ({}, None),
        ({"loops": [loop(12, 14)]}, None),
        ({"loops": [TRAINING], "looping_frame": 0}, None),
        ({"loops": [TRAINING, loop(88, 90, ["v"])], "looping_frame": 0}, True),
        ({"loops": [TRAINING, loop(88, 90)], "looping_frame": 0}, False),
    ],
    ids=[
        "a Jacobian of torch's",
        "a loop that takes nothing over",
        "one that does",
        "around another one",
        "through a framework",
        "a loop around a library's solver",
        "a library's solver",
        "no loop is seen",
        "the header of a for loop",
        "the training loop",
        "conjugate gradients around a function",
        "several losses",
    ],
)
def test_what_a_loop_takes_over_from_one_pass_to_the_next(given, is_carried):
    fact = facts(**given).get("repeated_backward.is_carried")
    assert (None if fact is None else fact.value) is is_carried


def test_without_repetitions_the_share_is_nothing():
    assert {name: fact.value for name, fact in facts(rows=[]).items()} == {"repeated_backward.share": 0.0}


def calls(lines, again_ms, passes=2):
    return {"lines": [(FILE, line, "residual") for line in lines], "passes": passes, "again_ns": again_ms * MS}


def test_derivatives_one_by_one_are_counted_over_all_outputs():
    found = facts(one_by_one=[calls([60, 61, 63], 20, 3), calls([70], 10)])
    assert found["one_by_one.share"].value == pytest.approx(30 / 65 * 30 / 60)
    assert found["one_by_one.passes"].value == 3
    assert found["one_by_one.where"].value == "residual (train.py:60)"
    assert [(place.line, place.end_line) for place in found["one_by_one.share"].places] == [(60, 63), (70, 70)]


def test_without_such_derivatives_their_share_is_nothing_and_it_is_not_known_where_none_was_recorded():
    assert facts(one_by_one=[])["one_by_one.share"].value == 0.0
    assert "one_by_one.share" not in facts()


def test_every_catalogued_fact_is_stated():
    wanted = {name for name, row in catalogue.facts().items() if row.supplier == "derive.repeated_backward"}
    assert set(facts(loops=[INNER], one_by_one=[calls([60], 1)])) == wanted
