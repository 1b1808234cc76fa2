"""What is printed of payback, and of restart or finish; the figures themselves are predict's."""

from __future__ import annotations

import pytest
from msgspec.structs import replace
from report_builders import report, run, step

from autotune.model.finding import Gain
from autotune.model.outlook import Outlook, Payback, Position, Restart
from autotune.predict.restart_or_finish import payback, restart
from autotune.report.text import restart_advice

GAIN = Gain(2.0, 1.6, 2.5, "modelled")
WHERE = Position(1240, 10_000, 2.0)


def printed(payback: Payback | None = None, restart: Restart | None = None, price: float | None = None) -> str:
    """As text."""
    made = report(run=run(), step=step(forward=1000.0), price=price)
    lines = restart_advice.lines(replace(made, outlook=Outlook(payback=payback, restart=restart)), 80)
    assert all(len(line.text) <= 80 for line in lines)
    return " ".join(" ".join(line.text for line in lines).split())


def test_nothing_without_a_gain_or_a_question() -> None:
    assert printed() == ""


def test_after_how_many_steps_a_restart_pays() -> None:
    assert printed(payback(GAIN, [1, 2], 2.0, 10_000, 100.0)) == (
        "Restarting a job that already runs, for 1, 2: its start-up (1 min 40 s) pays off after 100 steps "
        "(84 to 134), right after a save."
    )


def test_a_gain_that_may_be_none_never_pays_at_worst() -> None:
    assert "(44 to never)" in printed(payback(Gain(1.5, 0.9, 1.9, "modelled"), [1], 1.0, None, 20.5))
    assert "no time is saved" in printed(payback(Gain(1.0, 0.9, 1.0, "modelled"), [1], 1.0, None, 20.5))
    assert printed(payback(GAIN, [1], 1.0, None, None)) == ""


def test_of_a_bound_only_the_best_case_is_told() -> None:
    bound = Gain(2.0, 1.0, 2.0, "bound")
    assert printed(payback(bound, [1], 2.0, 10_000, 100.0)) == (
        "Restarting a job that already runs, for 1: its start-up (1 min 40 s) pays off after 100 steps at the "
        "earliest, right after a save."
    )
    partly = Gain(2.0, 1.6, 2.5, "bound")
    assert "Restart now: saves 1 h 43 min to 2 h 50 min, start-up included." in printed(
        restart=restart(WHERE, partly, [1], 100.0, 500)
    )


def test_a_start_up_that_takes_more_than_the_run_saves() -> None:
    assert printed(payback(GAIN, [1], 2.0, 100, 150.0)) == (
        "Restarting a job that already runs, for 1, would not pay: this run saves less than a start-up takes "
        "(2 min 30 s)."
    )


def test_not_worth_it_tells_its_threshold() -> None:
    assert printed(payback(GAIN, [1], 1.0, 60, 5.0)) == (
        "Not worth it for this run alone: 1 would save at most 36 s of 1 min 0 s, less than 1 min 0 s "
        "(2 % of the run, at least 1 min)."
    )


def test_the_ways_with_their_ranges_and_costs() -> None:
    text = printed(restart=restart(WHERE, GAIN, [1, 2], 100.0, 500), price=2.0)
    assert text.startswith("Restart for 1, 2 or finish: step 1,240 of 10,000, 8,760 to go at 2 s per step")
    assert "let it end 4 h 52 min $9.73 restart now 2 h 32 min (2 h 2 min to 3 h 9 min), $5.06, 240 steps" in text
    assert "restart after a save 2 h 32 min (2 h 4 min to 3 h 7 min), $5.07, in 260 steps" in text
    assert "Restart now: saves 2 h 20 min (1 h 43 min to 2 h 50 min), start-up included." in text


def test_a_bound_is_a_best_case() -> None:
    bound = Gain(1.5, 1.0, 1.5, "bound")
    text = printed(restart=restart(WHERE, bound, [1], 100.0, 1240))
    assert "restart now 3 h 16 min at best, at worst 4 h 54 min" in text


@pytest.mark.parametrize(
    ("gain", "where", "text"),
    [
        (
            GAIN,
            Position(9990, 10_000, 2.0),
            "Let it end: a restart would not save 1 min 0 s (2 % of the remaining time",
        ),
        (
            Gain(1.1, 0.9, 1.3, "modelled"),
            Position(0, 10_000, 2.0),
            "Cannot tell: the range of the gain includes both answers",
        ),
        (None, WHERE, "Let it end."),
    ],
)
def test_what_to_do(gain: Gain | None, where: Position, text: str) -> None:
    assert text in printed(restart=restart(where, gain, [1], 100.0, 500))


def test_a_line_that_was_not_placed_says_why() -> None:
    made = restart("its bar counts the batches of one epoch", GAIN, [1], 1.0, 5)
    assert printed(restart=made) == "Restart or finish: its bar counts the batches of one epoch."


def test_the_question_replaces_the_general_answer() -> None:
    general = payback(GAIN, [1], 2.0, 10_000, 100.0)
    assert "Restarting" not in printed(general, restart(WHERE, GAIN, [1], 100.0, 500))
