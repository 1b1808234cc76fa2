"""What the unused rows of a vocabulary cost: steps of 65 ms, 20 forward and 30 backward."""

from __future__ import annotations

import pytest
from build import recording, steps

from autotune import catalogue
from autotune.derive import derive
from autotune.derive.recording_view import MS

FILE = "/home/me/train.py"
TABLE, HEAD, LAYER = "model.wte", "model.lm_head", "model.layers.0"


def sampled(phase, module=""):
    return {"phase": phase, "frames": [(FILE, 72, "main", 1)], "callee": "", "module": module, "count": 100}


def operations(module, backward_ms):
    spent = {"ops": 9, "op_ns": 5 * MS, "backward_ns": backward_ms * MS, "host_ns": 5 * MS, "double_ns": 0}
    return {"file": FILE, "line": 72, "function": "main", "module": module, **spent, "names": []}


def facts(vocabularies, modules=(HEAD, LAYER)):
    """Each of the modules takes as much of forward and of backward."""
    each = 30 / len(modules)
    lines = {
        "lines": {
            "steps": 3,
            "wall_ns": 1,
            "count": 300,
            "rows": [sampled("forward", module) for module in modules] + [sampled("backward")],
            "modules": [],
            "statements": [],
            "loops": [],
        },
        "operations": {
            "steps": 1,
            "wall_ns": 1,
            "modules": [],
            "runs": [],
            "statements": [],
            "backward_ns": 30 * MS,
            "rows": [operations(module, each) for module in modules],
        },
        "rows": {"steps": 3, "rows": []},
    }
    if vocabularies is not None:
        lines["rows"]["vocabularies"] = vocabularies
    derived = derive([recording(script=steps(4), lines=lines)])
    return {fact.name: fact for fact in derived.facts if fact.name.startswith("vocabulary.")}


def table(name=TABLE, rows=1000, largest=99, heads=(HEAD,)):
    return {"name": name, "rows": rows, "largest": largest, "ids": 4096, "heads": list(heads)}


def test_the_share_is_that_of_the_rows_beyond_the_largest_id():
    found = facts([table()])
    assert found["vocabulary.share"].value == pytest.approx(0.9 * (10 + 15) / 65)
    assert [(place.file, place.line) for place in found["vocabulary.share"].places] == [(FILE, 72)]
    named = {name.removeprefix("vocabulary."): fact.value for name, fact in found.items()}
    assert named["unused_share"] == pytest.approx(0.9)
    assert (named["module"], named["rows"], named["largest"], named["ids"]) == (TABLE, 1000, 99, 4096)
    assert set(found) == {name for name, row in catalogue.facts().items() if row.supplier == "derive.vocabulary"}


def test_of_several_tables_it_is_the_one_that_costs_most():
    found = facts([table("users", heads=()), table("positions", 1000, 999, [LAYER]), table()])
    assert found["vocabulary.module"].value == TABLE


def test_a_table_that_no_layer_scores_costs_nothing():
    assert {name: fact.value for name, fact in facts([table(heads=())]).items()} == {"vocabulary.share": 0.0}


def test_nothing_is_known_where_tables_were_not_noted():
    assert facts(None) == {}
