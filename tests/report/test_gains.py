from __future__ import annotations

import pytest
from msgspec.structs import replace
from report_builders import change, finding, gain, recommendation, report, rule, run, step

from autotune.model.finding import Gain, Recommendation
from autotune.model.rule import Effect
from autotune.report import gains

EDIT = change("loader.num_workers", 0, 2)
ALTERING = change("train.precision", "fp32", "bf16-mixed", effect=Effect.ALTERING)


def numbered(number: int, *, alone: Gain | None = None, after: Gain | None = None) -> Recommendation:
    return recommendation(number, finding(rule(), "m", EDIT, gain=alone), after=after)


def test_the_groups_are_told_by_what_changes() -> None:
    made = report(
        recommendation(1, finding(rule(), "m", EDIT)),
        recommendation(2, finding(rule(), "m", change("loader.pin_memory", False, True, effect=Effect.EXACT))),
        recommendation(3, finding(rule(), "m", EDIT, ALTERING)),
        recommendation(4, finding(rule(), "m", advice=("by hand",))),
        run=run(),
        step=None,
    )
    assert [each.number for each in gains.ready_to_apply(made)] == [1, 2]
    assert [each.number for each in gains.decisions(made)] == [3, 4]


@pytest.mark.parametrize(
    ("recommendations", "expected"),
    [
        ([], None),
        ([numbered(1)], None),
        ([numbered(1, alone=gain(2.0, 1.5, 2.5))], gain(2.0, 1.5, 2.5)),
        ([numbered(1, alone=gain(2.0, 1.5, 2.5), after=gain(1.5, 1.2, 2.0))], gain(1.5, 1.2, 2.0)),
        ([numbered(2, alone=gain(2.0, 1.5, 2.5))], None),
        (
            [
                numbered(1, alone=gain(2.0, 1.5, 2.5)),
                numbered(2, alone=gain(9.0, 9.0, 9.0), after=gain(1.25, 1.0, 4 / 3, "modelled")),
            ],
            gain(1 / 0.3, 1.5, 1 / 0.15, "modelled"),
        ),
        (
            [
                numbered(1, alone=gain(2.0, 2.0, 2.0, "bound")),
                numbered(2, after=gain(4 / 3, 4 / 3, 4 / 3, "modelled")),
            ],
            gain(4.0, 4.0, 4.0, "bound"),
        ),
    ],
    ids=[
        "none",
        "no-gain",
        "first",
        "after-counts",
        "alone-is-not-after",
        "shares-add-up-weakest",
        "bound-is-weakest",
    ],
)
def test_combined(recommendations: list[Recommendation], expected: Gain | None) -> None:
    found = gains.combine(recommendations)
    assert (found and found.basis) == (expected and expected.basis)
    if found and expected:
        assert (found.speedup, found.low, found.high) == pytest.approx((expected.speedup, expected.low, expected.high))


@pytest.mark.parametrize(("second", "together"), [(20.0, 50.0), (None, None)])
def test_seconds_add_up_where_all_are_known(second: float | None, together: float | None) -> None:
    first = numbered(1, alone=gain(2.0, 1.5, 2.5, saved_s=30.0))
    found = gains.combine([first, numbered(2, after=gain(1.25, 1.0, 1.3, saved_s=second))])
    assert found is not None
    assert found.saved_s == together


def test_a_sum_of_bounds_never_removes_the_whole_step() -> None:
    found = gains.combine([numbered(1, alone=gain(4.0, 1.0, 4.0, "bound")), numbered(2, after=gain(5.0, 1.0, 5.0))])
    assert found is not None
    assert found.speedup == pytest.approx(100.0)


@pytest.mark.parametrize(
    ("basis", "steps", "expected"),
    [
        ("measured", 30, "1.26x (1.24-1.28) measured"),
        ("measured", 9, "1.26x (1.24-1.28) modelled"),
        ("modelled", 30, "1.26x (1.24-1.28) modelled"),
        ("bound", 9, "at most 1.26x"),
    ],
)
def test_speedup(basis: str, steps: int, expected: str) -> None:
    assert gains.speedup(gain(1.26, 1.24, 1.28, basis), step(steps, forward=1.0)) == expected


@pytest.mark.parametrize(
    ("won", "planned", "expected"),
    [
        (gain(2.0, 1.5, 2.5, saved_s=1080.0), 100, "saves 12 min to 22 min"),
        (gain(2.0, 1.5, 2.5, saved_s=None), 100, "saves 33 s to 1 min 0 s"),
        (gain(2.0, 1.5, 2.5), None, "saves 5 min 33 s to 10 min per 1,000 steps"),
        (gain(2.0, 0.9, 2.5), 100, "saves up to 1 min 0 s"),
        (gain(2.0, 0.0, 2.5), 100, "saves up to 1 min 0 s"),
        (gain(1.01, 1.0001, 1.02), 100, "saves up to 2.0 s"),
        (gain(0.99, 0.95, 1.02, saved_s=30.0), 100, "saves 30 s"),
        (gain(2.0, 1.5, 100.0), 100, "saves 50 s"),
        (gain(2.0, 1.999, 2.001), 100, "saves 50 s"),
        (gain(2.0, 1.0, 2.0, "bound"), None, "saves at most 8 min 20 s per 1,000 steps"),
        (gain(0.5, 0.4, 0.6), 100, "costs 1 min 40 s"),
    ],
)
def test_saved(won: Gain, planned: int | None, expected: str) -> None:
    made = report(run=run(planned_steps=planned), step=step(forward=1000.0))
    assert gains.saved_time(won, made) == expected


def test_seconds_are_per_1000_steps_where_the_time_of_the_run_is_unknown() -> None:
    window = replace(step(forward=1000.0), run_ms=None)
    made = report(run=run(planned_steps=4000), step=window)
    assert (
        gains.saved_time(gain(2.0, 1.5, 2.5, saved_s=1080.0), made) == "saves 3 min 0 s to 5 min 24 s per 1,000 steps"
    )
    assert gains.saved_time(gain(2.0, 1.5, 2.5), made) == "saves 5 min 33 s to 10 min per 1,000 steps"


def test_nothing_is_saved_of_a_run_without_step() -> None:
    assert gains.saved_time(gain(2.0, 1.5, 2.5), report(run=run("no_step"), step=None)) == ""


@pytest.mark.parametrize(
    ("low", "high", "said"),
    [
        (1.34, 100.0, "4.08x (at least 1.34x) modelled"),
        (1.34, 16.33, "4.08x (at least 1.34x) modelled"),
        (1.34, 16.31, "4.08x (1.34-16.31) modelled"),
        (0.5, 16.33, "4.08x (may also be slower) modelled"),
    ],
    ids=["everything goes away", "far above", "just within", "nothing is known"],
)
def test_an_upper_end_that_bounds_nothing_is_not_said(low: float, high: float, said: str) -> None:
    assert gains.format_gain(gain(4.08, low, high, "modelled")) == said
