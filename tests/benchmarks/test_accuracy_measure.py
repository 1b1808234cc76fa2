"""benchmarks/accuracy/measure.py: intervals, verdicts, what is measured next, and the step counter."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
TRAINING = """
import torch
weight = torch.nn.Parameter(torch.zeros(1))
optimizer = torch.optim.SGD([weight], lr=0.1)
for step in range({steps}):
    weight.square().backward()
    optimizer.step()
print("ended by itself")
"""


@pytest.fixture
def measure(imported):
    return imported("benchmarks.accuracy.measure")


@pytest.fixture
def faulty(measure):
    return next(case for case in measure.cases.read().cases if not case.is_healthy)


@pytest.fixture
def healthy(measure):
    return next(case for case in measure.cases.read().cases if case.is_healthy)


def test_a_gain_is_a_ratio_of_geometric_means_with_students_interval(measure):
    found = measure.gain([20.0, 22.0], [10.0, 11.0])
    assert found.speedup == pytest.approx(2.0)
    assert (found.low, found.high) == (pytest.approx(1.5, abs=0.01), pytest.approx(2.67, abs=0.01))
    assert found.starts == 2


def test_work_counts_what_a_step_does(measure):
    assert measure.gain([10.0, 10.0], [20.0, 20.0], work=8.0).speedup == pytest.approx(4.0)


@pytest.mark.parametrize("sides", [([1.0], [1.0]), ([1.0] * 5, [1.0] * 5), ([1.0, 1.0], [1.0]), ([], [])])
def test_there_is_no_gain_without_two_starts_a_side(measure, sides):
    assert measure.gain(*sides) is None


@pytest.mark.parametrize(
    ("low", "high", "fault", "twin"),
    [
        (1.05, 1.4, "holds", "refuted"),
        (1.06, 1.4, "holds", "refuted"),
        (1.04, 1.4, "undecided", "undecided"),
        (1.0, 1.12, "undecided", "undecided"),
        (0.9, 1.15, "undecided", "undecided"),
        (0.9, 1.14, "refuted", "holds"),
    ],
)
def test_the_interval_decides(measure, faulty, healthy, low, high, fault, twin):
    found = measure.Gain((low + high) / 2, low, high, 2)
    assert (measure.verdict(faulty, found), measure.verdict(healthy, found)) == (fault, twin)


def test_without_figures_nothing_is_said(measure, faulty):
    assert measure.verdict(faulty, None) == "not measured"


def test_the_authors_figures_count_where_nothing_is_kept_of_the_case_as_it_is(measure, faulty, tmp_path):
    case, path = replace(faulty, ms_faulty=(30.0, 33.0, 31.0), ms_repaired=(10.0, 11.0, 10.5)), tmp_path / "m.json"
    assert measure.known(case, {}).starts == 3 and measure.known(case, {}).speedup == pytest.approx(3.0, rel=0.03)
    assert measure.verdict(case, measure.known(case, {})) == "holds"
    measure.add(case, {"A": [20.0, 20.0], "B": [20.0, 20.1]}, path)
    assert measure.verdict(case, measure.known(case, measure.kept(path))) == "refuted"


def test_times_of_a_round_are_added_and_those_of_a_changed_case_dropped(measure, faulty, tmp_path):
    path = tmp_path / "measured.json"
    measure.add(faulty, {"A": [20.0, 20.0], "B": [10.0, 10.0]}, path)
    measure.add(faulty, {"A": [20.0, 20.0], "B": [10.0, 10.0]}, path)
    assert measure.known(faulty, measure.kept(path)).starts == 4
    changed = replace(faulty, steps=faulty.steps + 1)
    assert measure.known(changed, measure.kept(path)) is None
    measure.add(changed, {"A": [5.0, 5.0], "B": [5.0, 5.0]}, path)
    assert measure.known(changed, measure.kept(path)).starts == 2


def test_rounds_go_on_with_what_is_not_decided(measure, faulty, healthy, tmp_path):
    path = tmp_path / "measured.json"
    measure.add(faulty, {"A": [20.0, 20.1], "B": [10.0, 10.1]}, path)
    measure.add(healthy, {"A": [20.0, 30.0], "B": [20.0, 30.0]}, path)
    fails = replace(faulty, id="fails")
    assert [case.id for case in measure.wanted([fails, faulty, healthy], 2, path)] == ["fails", healthy.id]


def counted(tmp_path, steps, **environ):
    script, result = tmp_path / "train.py", tmp_path / "seconds"
    script.write_text(TRAINING.format(steps=steps))
    environ = {
        **os.environ,
        "PYTHONPATH": str(ROOT / "benchmarks/accuracy/counter"),
        "ACCURACY_WINDOW": "2 5",
        "ACCURACY_RESULT": str(result),
        **environ,
    }
    ended = subprocess.run(
        [sys.executable, str(script)], env=environ, capture_output=True, text=True, timeout=60, start_new_session=True
    )
    return ended.stdout, float(result.read_text()) if result.exists() else None


@pytest.mark.train
def test_the_counter_times_a_window_of_steps_and_ends_the_run(tmp_path):
    said, seconds = counted(tmp_path, 1_000_000)
    assert said == "" and 0 < seconds < 5


@pytest.mark.train
def test_a_run_that_ends_before_the_window_does_has_no_time(tmp_path):
    assert counted(tmp_path, 6) == ("ended by itself\n", None)
