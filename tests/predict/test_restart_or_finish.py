"""Restart or finish, and after how many steps a restart pays: every figure by hand, and decisions by brute force."""

from __future__ import annotations

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from autotune.model.finding import Gain
from autotune.model.outlook import Position, RestartForecast, RestartOption
from autotune.model.report import Step
from autotune.predict.restart_or_finish import LEAST_S, LEAST_SHARE, least_s, of_run, payback, restart

TWICE = Gain(2.0, 1.6, 2.5, "modelled")
UNSURE = Gain(1.1, 0.9, 1.3, "modelled")
BOUND = Gain(1.5, 1.0, 1.5, "bound")


def test_the_three_ways_in_seconds() -> None:
    found = restart(Position(1230, 10_000, 2.0), TWICE, [1], 100.0, 500)
    assert found.courses == (
        RestartForecast(RestartOption.FINISH, 17_540.0, 17_540.0, 17_540.0),
        RestartForecast(RestartOption.RESTART_NOW, 100 + 9000.0, 100 + 7200.0, 100 + 11_250.0, repeated_steps=230),
        RestartForecast(
            RestartOption.RESTART_AFTER_SAVE,
            *(pytest.approx(540 + 100 + 8500 * 2 / each) for each in (2.0, 2.5, 1.6)),
            wait_steps=270,
        ),
    )
    assert found.choice is RestartOption.RESTART_NOW
    assert found.least_s == pytest.approx(0.02 * 17_540)


def test_shortly_before_a_save_it_is_worth_waiting_for() -> None:
    assert restart(Position(1490, 10_000, 2.0), TWICE, [1], 100.0, 500).choice is RestartOption.RESTART_AFTER_SAVE


def test_right_after_a_save_nothing_is_repeated() -> None:
    ways = {course.way: course for course in restart(Position(1500, 10_000, 2.0), TWICE, [1], 100.0, 500).courses}
    assert set(ways) == {RestartOption.FINISH, RestartOption.RESTART_NOW}
    assert ways[RestartOption.RESTART_NOW].repeated_steps == 0


def test_shortly_before_the_end_it_ends() -> None:
    assert restart(Position(9900, 10_000, 2.0), TWICE, [1], 100.0, 500).choice is RestartOption.FINISH


def test_a_save_after_the_end_is_not_waited_for() -> None:
    found = restart(Position(9600, 10_000, 2.0), TWICE, [1], 10.0, 5000)
    assert {course.way for course in found.courses} == {RestartOption.FINISH, RestartOption.RESTART_NOW}


@pytest.mark.parametrize("gain", [UNSURE, BOUND])
def test_an_interval_that_holds_no_gain_decides_nothing(gain: Gain) -> None:
    assert restart(Position(1000, 100_000, 2.0), gain, [1], 100.0, 500).choice is None


def test_an_unsure_gain_that_could_not_pay_at_best_lets_it_end() -> None:
    assert restart(Position(99_500, 100_000, 0.1), UNSURE, [1], 100.0, 500).choice is RestartOption.FINISH


def test_without_saves_a_restart_begins_at_the_start() -> None:
    found = restart(Position(1000, 10_000, 1.0), TWICE, [1], 0.0, None)
    assert found.courses[1].repeated_steps == 1000
    assert "begin at step 0" in found.notes[-1]


def test_what_cannot_be_placed_decides_nothing() -> None:
    found = restart("its bar counts something else", TWICE, [1], 100.0, 500)
    assert (found.position, found.choice, found.notes) == (None, None, ("its bar counts something else",))


def test_without_a_gain_it_ends() -> None:
    found = restart(Position(0, 10, 1.0), None, [], 100.0, 500)
    assert found.choice is RestartOption.FINISH
    assert "no change" in found.notes[0]


def test_without_a_startup_nobody_can_tell() -> None:
    assert restart(Position(0, 10, 1.0), TWICE, [1], None, 500).choice is None


@given(
    step=st.integers(0, 9999),
    step_s=st.floats(0.01, 100),
    ends=st.tuples(st.floats(0.5, 5), st.floats(0.5, 5), st.floats(0.5, 5)),
    startup_s=st.floats(0, 10_000),
    interval=st.integers(1, 5000) | st.none(),
    between=st.floats(0, 1),
)
def test_a_decision_holds_within_the_whole_interval(
    step: int,
    step_s: float,
    ends: tuple[float, float, float],
    startup_s: float,
    interval: int | None,
    between: float,
) -> None:
    low, likely, high = sorted(ends)
    where = Position(step, 10_000, step_s)
    choice = restart(where, Gain(likely, low, high, "modelled"), [1], startup_s, interval).choice
    assume(choice is not None)
    true = low + (high - low) * between
    alone = restart(where, Gain(true, true, true, "modelled"), [1], startup_s, interval)
    finish, *rest = sorted(alone.courses, key=lambda course: course.way is not RestartOption.FINISH)
    saved = finish.seconds - min(course.seconds for course in rest)
    slack = 1e-6 * finish.seconds
    if choice is RestartOption.FINISH:
        assert saved <= alone.least_s + slack
    else:
        assert saved >= alone.least_s - slack


def test_a_startup_is_won_back_after_so_many_steps() -> None:
    found = payback(TWICE, [1, 2], 2.0, 10_000, 100.0)
    assert (found.planned_s, found.saved_s) == (20_000, 10_000)
    assert (found.low_s, found.high_s) == (pytest.approx(7500), pytest.approx(12_000))
    assert (found.steps, found.low_steps, found.high_steps) == (100, 84, 134)
    assert found.is_worth_it


@pytest.mark.parametrize("gain", [TWICE, BOUND])
def test_what_is_computed_of_a_gain_has_its_basis(gain: Gain) -> None:
    assert payback(gain, [1], 2.0, 10_000, 100.0).basis == gain.basis
    assert restart(Position(0, 10_000, 2.0), gain, [1], 100.0, 500).basis == gain.basis
    assert restart(Position(0, 10, 1.0), gain, [1], None, 500).basis == gain.basis


def test_without_a_gain_there_is_no_basis() -> None:
    assert restart(Position(0, 10, 1.0), None, [], 100.0, 500).basis is None
    assert restart("its bar counts something else", TWICE, [1], 100.0, 500).basis is None


def test_a_gain_of_the_window_is_another_share_of_the_whole_run() -> None:
    """20 ms less: of a window of 400 ms, and of a run's 110 ms."""
    step = Step(33, 400.0, 100.0, 100.0, {}, run_ms=110.0)
    found = of_run(Gain(1 / 0.95, 1.0, 1 / 0.9, "modelled"), step)
    assert (found.speedup, found.low, found.high) == pytest.approx((110 / 90, 1.0, 110 / 70))
    assert of_run(TWICE, Step(33, 400.0, 100.0, 100.0, {})) == TWICE


def test_no_gain_at_the_lower_end_never_pays() -> None:
    found = payback(UNSURE, [1], 1.0, 10_000, 100.0)
    assert (found.steps, found.high_steps) == (1100, None)
    assert found.is_worth_it


def test_what_saves_too_little_at_best_is_not_worth_it() -> None:
    assert payback(TWICE, [1], 1.0, 60, 5.0).is_worth_it is False
    assert payback(Gain(1.01, 1.0, 1.015, "modelled"), [1], 1.0, 100_000, 5.0).is_worth_it is False
    assert payback(TWICE, [1], 1.0, None, 5.0).is_worth_it is None


def test_an_unknown_startup_or_length_stays_unknown() -> None:
    found = payback(TWICE, [1], 1.0, None, None)
    assert (found.saved_s, found.steps, found.low_steps, found.high_steps) == (None, None, None, None)


@pytest.mark.parametrize(("seconds", "least"), [(0, LEAST_S), (3000, LEAST_S), (100_000, LEAST_SHARE * 100_000)])
def test_the_threshold(seconds: float, least: float) -> None:
    assert least_s(seconds) == least
