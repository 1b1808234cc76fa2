"""The arithmetic of benchmarks/prediction.py on times that were made up; nothing is measured."""

from __future__ import annotations

import importlib.util
import json
import sys
from pathlib import Path

import pytest

FILE = Path(__file__).parents[2] / "benchmarks" / "prediction.py"


@pytest.fixture
def prediction(monkeypatch):
    monkeypatch.setattr(sys, "path", [str(FILE.parent), *sys.path])
    spec = importlib.util.spec_from_file_location("benchmark_prediction", FILE)
    module = importlib.util.module_from_spec(spec)
    for name in ("measuring", "prediction_cases", "prediction_rows"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    monkeypatch.setitem(sys.modules, "benchmark_prediction", module)
    spec.loader.exec_module(module)
    return module


def rows_of(prediction):
    return sys.modules[prediction.predictions.__module__]


def saving(factor):
    arguments = {"cost": "checkpoint", "factor": str(factor)}
    return {"words": f"save_every={2 * factor}", "what_if": "amortised", "arguments": arguments}


def measured(**changed):
    """A save takes half of the run: twice the interval is 4/3 as fast, four times 8/5."""
    named = {"kind": "wide", "half": "held out"}
    base = {"group": "saves", "words": "save_every=2", "held_out": [saving(2), saving(4)]}
    facts = {"run": {"checkpoint.cost_share": 0.5, "step.noise_share": 0.1}}
    first = {"save_every=2": [120, 100], "save_every=4": [90, 80], "save_every=8": [50, 40]}
    again = {"save_every=2": [900, 120], "save_every=4": [90, 90], "save_every=8": [50, 90]}
    return {**named, "base": base, "facts": facts, "starts": [first, again], "load_average": 1.0, **changed}


def test_a_prediction_is_held_against_the_median_of_all_rounds(prediction):
    two, four = prediction.predictions([measured()])
    assert (two.applied, two.said) == pytest.approx((120 / 90, 4 / 3))
    assert two.error == pytest.approx(0.0)
    assert two.covered
    assert (four.applied, four.error) == pytest.approx((2.4, 0.5))
    assert not four.covered
    assert four.apart == pytest.approx((510 / 70) / (110 / 45) - 1)


def test_what_was_not_applied_is_left_out_and_what_is_not_known_is_no_claim(prediction):
    assert prediction.predictions([measured(starts=[{}, {}])]) == []
    unknown = prediction.predictions([measured(facts={"run": {}})])
    assert [(row.said, row.error, row.covered) for row in unknown] == [(None, None, False)] * 2
    assert "| saves           | 0           | 2        |" in prediction.summary(unknown)


def row(prediction, words, applied, said, base="workers=0"):
    return rows_of(prediction).Row("I/O", "remote", "held out", base, words, applied, 0.0, said, None, None)


@pytest.mark.parametrize(
    ("said", "chosen", "lost"),
    [
        ((1.9, 3.1), "workers=4", 0.0),
        ((1.9, 1.5), "workers=2", 0.5),
        ((0.9, None), "workers=0", 2.0),
    ],
)
def test_the_chosen_workers_against_the_best(prediction, said, chosen, lost):
    rows = [row(prediction, "workers=2", 2.0, said[0]), row(prediction, "workers=4", 3.0, said[1])]
    assert prediction.choices(rows) == [("remote", "workers=0", chosen, "workers=4", pytest.approx(lost))]


def test_every_held_out_setting_names_a_what_if_that_there_is(prediction):
    from autotune.predict import WHAT_IFS

    held = [(case.half, each) for case in prediction.cases() for base in case.bases for each in base.held_out]
    assert {each.what_if for _, each in held} <= {*WHAT_IFS, "step_ms"}
    assert sum(half == "held out" for half, _ in held) >= 100


def test_what_constants_are_set_by_is_not_what_is_reported(prediction):
    kinds = {half: {case.kind for case in prediction.cases() if case.half == half} for half in ("fit", "held out")}
    assert kinds["fit"] and not kinds["fit"] & kinds["held out"]


def test_a_replay_measures_nothing(prediction, tmp_path, monkeypatch, capsys):
    file = tmp_path / "saved.json"
    file.write_text(json.dumps({"schema": 1, "measured": [measured()]}), encoding="utf-8")
    monkeypatch.setattr(prediction.measuring, "run", None)
    monkeypatch.setattr(sys, "argv", ["prediction.py", "--replay", str(file)])
    prediction.main()
    out = capsys.readouterr().out
    assert "| saves           | 2           | 0        | 25.0 %" in out
    assert "2 of 2 settings were applied in two starts" in out
