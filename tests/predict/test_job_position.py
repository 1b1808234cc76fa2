"""A progress line and the measured run: steps, micro-batches or batches of one epoch."""

from __future__ import annotations

import pytest

from autotune.model.evidence import RUN, Evidence, Value
from autotune.model.outlook import Position, ProgressLine
from autotune.predict.job_position import position, shown_step_s

PLAN: dict[str, Value] = {
    "run.num_planned_steps": 750,
    "run.num_planned_epochs": 3.0,
    "train.accumulation_steps": 4,
    "step.mean_ms": 2000.0,
    "run.framework": "raw",
}


def at(line: ProgressLine, **changed: Value | None) -> Position | str:
    facts = {**PLAN, **{name.replace("__", "."): value for name, value in changed.items()}}
    known = {name: value for name, value in facts.items() if value is not None}
    return position(line, Evidence({RUN: known, "loader#train": {"loader.num_batches": 1000}}))


def placed(line: ProgressLine, **changed: Value | None) -> Position:
    found = at(line, **changed)
    assert isinstance(found, Position), found
    return found


def test_a_bar_as_long_as_the_plan_counts_steps() -> None:
    assert placed(ProgressLine(150, 750, 2.1)) == Position(150, 750, 2.1)
    assert placed(ProgressLine(150, 750)).step_s == 2.0
    assert placed(ProgressLine(150)) == Position(150, 750, 2.0)


def test_the_steps_to_go_are_those_of_the_run_and_not_of_the_window() -> None:
    assert placed(ProgressLine(150), run__step_ms=1500.0) == Position(150, 750, 1.5)


def test_a_bar_may_count_micro_batches() -> None:
    found = placed(ProgressLine(600, 3000, 0.5))
    assert (found.step, found.total, found.step_s) == (150, 750, 2.0)
    assert "micro-batches" in found.notes[0]


@pytest.mark.parametrize(("framework", "epoch", "step"), [("lightning", 1, 350), ("raw", 1, 100), ("raw", 0, 100)])
def test_a_bar_may_count_the_batches_of_an_epoch(framework: str, epoch: int, step: int) -> None:
    found = placed(ProgressLine(400, 1000, 0.5, epoch=epoch), run__framework=framework)
    assert (found.step, found.total, found.step_s) == (step, 750, 2.0)


def test_a_bar_of_an_unknown_epoch_is_not_placed() -> None:
    assert "the epoch is unknown" in str(at(ProgressLine(400, 1000, 0.5)))


def test_an_epoch_beyond_the_plan_is_another_run() -> None:
    assert "another run" in str(at(ProgressLine(400, 1000, 0.5, epoch=5)))


def test_epochs_of_a_log_line() -> None:
    assert placed(ProgressLine(epochs_done=1.5)) == Position(375, 750, 2.0, ("epoch 1.5 of 3",))
    assert 'write "step N/M"' in str(at(ProgressLine(epochs_done=1.5), run__num_planned_epochs=None))


def test_a_line_of_another_length_is_believed_and_said() -> None:
    found = placed(ProgressLine(1200, 50000))
    assert (found.step, found.total) == (1200, 50000)
    assert "plans 750 steps" in found.notes[0]
    assert placed(ProgressLine(1200, 50000), run__num_planned_steps=None).notes == ()


def test_without_any_length_it_is_not_placed() -> None:
    assert "gives the length of the run" in str(at(ProgressLine(1200), run__num_planned_steps=None))
    assert "beyond the 750 planned steps" in str(at(ProgressLine(1200)))


def test_a_rate_that_does_not_add_up_does_not_count() -> None:
    found = placed(ProgressLine(150, 750, 0.29, adds_up=False))
    assert found.step_s == 2.0
    assert "the measured step time is used" in found.notes[0]


def test_a_rate_unlike_the_measured_step_is_said() -> None:
    found = placed(ProgressLine(150, 750, 3.0))
    assert found.step_s == 3.0
    assert found.notes == ("the rate in the line is used: 3 s per step; measured here: 2 s",)
    assert "another run" in str(at(ProgressLine(150, 750, 6.1)))


def test_without_any_time_it_is_not_placed() -> None:
    assert "gives the step time" in str(at(ProgressLine(150, 750), step__mean_ms=None))


@pytest.mark.parametrize(
    ("line", "seconds"),
    [
        (ProgressLine(150, 750, 2.1), 2.1),
        (ProgressLine(600, 3000, 0.5), 2.0),
        (ProgressLine(400, 1000, 0.5, epoch=1), 2.0),
        (ProgressLine(10, 42, 2.1), 2.1),
        (ProgressLine(150, 750), None),
        (ProgressLine(150, 750, 2.1, adds_up=False), None),
    ],
)
def test_the_rate_of_a_line_is_told_for_an_optimizer_step(line: ProgressLine, seconds: float | None) -> None:
    known = Evidence({RUN: PLAN, "loader#train": {"loader.num_batches": 1000}})
    assert shown_step_s(line, known) == seconds
