from __future__ import annotations

import pytest
from msgspec.structs import replace
from report_builders import change, evidence, finding, gain, recommendation, report, rule, run, step

from autotune.model.finding import Recommendation
from autotune.model.rule import Effect
from autotune.report.text import run_time


def rows(
    *recommendations: Recommendation,
    planned: int | None = 3600,
    price: float | None = None,
    run_ms: float | None = 1000.0,
) -> list[str]:
    window = replace(step(forward=1000.0), run_ms=run_ms)
    made = report(*recommendations, run=run(planned_steps=planned), step=window, price=price)
    return [line.text for line in run_time.lines(made, 80)]


def won(number: int, speedup: float, *, effect: Effect = Effect.EXACT, basis: str = "measured") -> Recommendation:
    each = gain(speedup, speedup, speedup, basis)
    return recommendation(number, finding(rule(), "m", change("a.b", 1, 2, effect=effect), gain=each), after=each)


def test_this_run_alone() -> None:
    assert rows() == ["  this run, 3,600 steps     1 h 0 min"]


def test_price_is_time_times_rate() -> None:
    assert rows(price=2.5) == ["  this run, 3,600 steps     1 h 0 min     $2.50"]


def test_decisions_come_on_top_of_the_unchanged_group() -> None:
    assert rows(won(1, 2.0), won(2, 1.2, effect=Effect.ALTERING), price=3.0) == [
        "  this run, 3,600 steps        1 h 0 min     $3.00",
        "  + 1 (training unchanged)        30 min     $1.50  2.00x (2.00-2.00) measured",
        "  + 2 (your decision)             20 min     $1.00  3.00x (3.00-3.00) measured",
    ]


def test_a_decision_alone_needs_no_unchanged_row() -> None:
    assert rows(won(1, 2.0, effect=Effect.ALTERING))[1].startswith("  + 1 (your decision)")


def test_modelled_is_said_to_be_unverified() -> None:
    assert rows(won(1, 2.0, basis="modelled"))[-1] == "  (modelled: computed from this window, unverified)"


def test_an_unknown_length_is_said() -> None:
    assert rows(planned=None) == [
        "  now, 1,000 steps        17 min",
        "  The length of the run is unknown: times are per 1,000 steps.",
    ]


def test_the_run_takes_its_own_steps_and_saves_what_the_windows_do() -> None:
    assert rows(won(1, 1.25), run_ms=500.0) == [
        "  this run, 3,600 steps           30 min",
        "  + 1 (training unchanged)        18 min  1.25x (1.25-1.25) measured",
    ]


@pytest.mark.parametrize(
    ("planned", "interval", "seconds", "said"),
    [
        (3600, 500, None, True),
        (3600, 500, 2.0, False),
        (3600, 5000, None, False),
        (None, 5000, None, True),
        (3600, None, None, False),
    ],
)
def test_evaluations_that_were_not_timed_come_on_top(
    planned: int | None, interval: int | None, seconds: float | None, said: bool
) -> None:
    known = {"evaluation.interval_steps": interval, "evaluation.eval_s": seconds}
    facts = {"run": {name: value for name, value in known.items() if value is not None}}
    made = report(run=run(planned_steps=planned), step=step(forward=1000.0), evidence=evidence(facts))
    assert (
        "  Its evaluations are not included: none was timed." in [line.text for line in run_time.lines(made, 80)]
    ) is said


def test_a_run_whose_evaluations_were_not_timed_is_counted_without_them_and_says_so() -> None:
    window = replace(step(forward=1000.0), run_ms=None)
    facts = {"run": {"evaluation.interval_steps": 500, "evaluation.num_seen": 0}}
    made = report(run=run(planned_steps=3600), step=window, evidence=evidence(facts))
    assert [line.text for line in run_time.lines(made, 80)] == [
        "  this run, 3,600 steps     1 h 0 min",
        "  Its evaluations are not included: none was timed.",
    ]
    begun = replace(made, evidence=evidence({"run": {"evaluation.interval_steps": 500, "evaluation.num_seen": 1}}))
    said = " ".join(line.text.strip() for line in run_time.lines(begun, 80))
    assert "some of them fall into these steps" in said
    assert "on top" not in said


@pytest.mark.parametrize(("cost", "is_whole"), [(0.01, True), (None, False)])
def test_saves_among_the_steps_count_as_they_fell_where_their_interval_is_known(cost, is_whole: bool) -> None:
    window = replace(step(forward=990.0, checkpoint=10.0), run_ms=None)
    facts = {"evaluation.interval_steps": 500, "evaluation.num_seen": 0, "checkpoint.cost_share": cost}
    known = {name: value for name, value in facts.items() if value is not None}
    made = report(run=run(planned_steps=3600), step=window, evidence=evidence({"run": known}))
    first, *rest = [line.text for line in run_time.lines(made, 80)]
    assert first.startswith("  this run, 3,600 steps" if is_whole else "  now, 1,000 steps")
    assert any("not all of this run" in line.lower() for line in rest) is not is_whole


def test_a_sum_of_bounds_leaves_some_time() -> None:
    each = gain(4.0, 1.0, 4.0, "bound", saved_s=2700.0)
    parts = [recommendation(at, finding(rule(), "m", change("a.b", 1, 2), gain=each), after=each) for at in (1, 2)]
    assert rows(*parts)[1].endswith("  36 s  no bound known")


def test_saves_that_come_who_knows_how_often_are_said() -> None:
    assert rows(won(1, 2.0), run_ms=None) == [
        "  now, 1,000 steps                17 min",
        "  + 1 (training unchanged)    8 min 20 s  2.00x (2.00-2.00) measured",
        "  The interval or cost of saves or evaluations is unknown, and some of them fall",
        "  into these steps: times are per 1,000 steps.",
    ]


@pytest.mark.parametrize(
    ("numbers", "label"),
    [((1, 2, 3), "+ 1, 2, 3 ("), ((1, 2, 3, 4), "+ 1-4 ("), ((1, 2, 3, 5), "+ 1, 2, 3 ... (")],
)
def test_numbers_of_a_row(numbers: tuple[int, ...], label: str) -> None:
    assert rows(*(won(number, 1.1) for number in numbers))[1].strip().startswith(label)


def test_without_a_gain_a_number_is_in_no_row() -> None:
    bare = recommendation(2, finding(rule(), "m", change("a.b", 1, 2)))
    assert rows(won(1, 2.0), bare)[1:] == ["  + 1 (training unchanged)        30 min  2.00x (2.00-2.00) measured"]
