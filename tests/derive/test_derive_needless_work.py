from __future__ import annotations

import pytest
from build import MS, facts_of, steps, what_if

from autotune import catalogue

GRADIENTS = {
    "file": "/home/u/train.py", "line": 41, "reason": "unowned", "parameters": 300, "of_parameters": 400,
    "modules": "model.encoder.*",
}  # fmt: skip
FLOAT64 = {
    "file": "/home/u/train.py", "line": 28, "source": "self.table", "results": 5, "elements": 9000,
    "is_asked_for": False,
}  # fmt: skip


SECOND = {"file": "/home/u/train.py", "line": 17}


def watched(*gradients, float64=None, **looked_for):
    return what_if("watch", {}, gradients=list(gradients), float64=float64, **looked_for)


def replay(ms, **arguments):
    return what_if("replay_changed", arguments, step_ns=[ms * MS] * 3, update_ns=[MS] * 3)


def found(*what_ifs):
    return facts_of(script=steps(3), what_ifs=what_ifs)


def test_where_nothing_was_watched_nothing_is_known():
    assert not [name for name in found() if name.startswith(("gradients.", "float64."))]


def test_where_nothing_was_found_there_is_none():
    facts = found(watched())
    assert (facts["gradients.unowned_share"], facts["gradients.discarded_share"]) == (0.0, 0.0)
    assert facts["float64.num_results"] == 0 and "float64.place" not in facts


@pytest.mark.parametrize("reason", ["unowned", "discarded"])
def test_of_several_lines_the_one_with_most_parameters_counts(reason):
    row = {**GRADIENTS, "reason": reason}
    other = {**row, "line": 50, "parameters": 100}
    facts = found(watched(other, row))
    assert facts[f"gradients.{reason}_parameters"] == 300
    assert facts[f"gradients.{reason}_share"] == 0.75
    assert facts[f"gradients.{reason}_place"] == "train.py:41"
    assert facts[f"gradients.{reason}_modules"] == "model.encoder.*"


def test_modules_without_a_name_are_not_known():
    assert "gradients.unowned_modules" not in found(watched({**GRADIENTS, "modules": ""}))


def test_where_float64_arises():
    facts = found(watched(float64=FLOAT64))
    assert (facts["float64.place"], facts["float64.source"]) == ("train.py:28", "self.table")
    assert facts["float64.num_results"] == 5 and facts["float64.is_asked_for"] is False


def test_lines_whose_second_derivatives_nobody_uses():
    facts = found(watched(second_derivatives=[SECOND, {**SECOND, "line": 30}]))
    assert (facts["second_derivatives.num_unused"], facts["second_derivatives.place"]) == (2, "train.py:17")
    none = found(watched(second_derivatives=[]))
    assert none["second_derivatives.num_unused"] == 0 and "second_derivatives.place" not in none


def test_an_earlier_version_did_not_look_for_second_derivatives():
    assert "second_derivatives.num_unused" not in found(watched())


def test_each_replay_without_something_is_held_beside_the_one_as_it_is_of_its_round():
    rounds = 2 * [replay(100), replay(50, unused_gradients=False), replay(80, second_derivatives=False)]
    facts = found(watched(GRADIENTS, second_derivatives=[SECOND]), *rounds)
    assert facts["replay.unused_gradients_share"] == pytest.approx(0.5)
    assert facts["replay.second_derivatives_share"] == pytest.approx(0.2)


def test_what_replays_without_unused_gradients_save_and_the_least_of_a_round():
    rounds = [one for ms in (50, 60, 70) for one in (replay(100), replay(ms, unused_gradients=False))]
    facts = found(watched(GRADIENTS), *rounds)
    assert facts["replay.unused_gradients_share"] == pytest.approx(0.4)
    assert facts["replay.unused_gradients_least_share"] == pytest.approx(0.3)


def test_float32_is_held_beside_steps_that_are_looked_through_as_well():
    rounds = 2 * [replay(100), replay(200, float64=True), replay(120, float64=False)]
    facts = found(watched(float64=FLOAT64), *rounds)
    assert facts["replay.float64_share"] == pytest.approx(0.4)


def test_steps_that_are_looked_through_are_not_as_the_script_is():
    as_is = what_if("replay", {}, step_ns=[100 * MS] * 3, update_ns=[MS] * 3)
    facts = found(as_is, watched(float64=FLOAT64), replay(100), replay(200, float64=True), replay(60, anomaly=False))
    assert facts["replay.anomaly_share"] == pytest.approx(0.4)


def test_every_catalogued_fact_of_needless_work_is_stated():
    rounds = 2 * [
        replay(100),
        replay(200, float64=True),
        replay(120, float64=False),
        replay(50, unused_gradients=False),
        replay(60, second_derivatives=False),
    ]
    both = (GRADIENTS, {**GRADIENTS, "reason": "discarded"})
    facts = found(watched(*both, float64=FLOAT64, second_derivatives=[SECOND]), *rounds)
    wanted = {name for name, row in catalogue.facts().items() if row.supplier == "derive.needless_work"}
    assert wanted and wanted <= set(facts)


def test_one_round_tells_nothing():
    facts = found(watched(GRADIENTS), replay(100), replay(50, unused_gradients=False))
    assert "replay.unused_gradients_share" not in facts


def test_slower_is_nothing_saved():
    facts = found(watched(GRADIENTS), *2 * [replay(100), replay(110, unused_gradients=False)])
    assert facts["replay.unused_gradients_least_share"] == 0.0
