from __future__ import annotations

import pytest

from autotune.model.tuned import Outcome, SearchTrial
from autotune.tune.stopping import PATIENCE, Stopping, in_vain, not_worth, out_of

TRIALS = [SearchTrial(number, (0,), Outcome.COMPLETED, 10.0, samples_per_s=1.0) for number in range(3)]


def test_trials_are_counted() -> None:
    assert out_of(Stopping(trials=3), 0.0, TRIALS) == "the limit of 3 trials is reached"
    assert out_of(Stopping(trials=4), 0.0, TRIALS) == ""


def test_a_budget_has_to_hold_the_next_trial() -> None:
    assert out_of(Stopping(budget_s=60.0), 50.0, TRIALS) == ""
    too_little = "the budget holds the confirmation and no further trial"
    assert out_of(Stopping(budget_s=60.0), 51.0, TRIALS) == too_little


def test_a_trial_costs_less_than_it_may_save_of_a_planned_run() -> None:
    stopping = Stopping(budget_s=60.0, planned_s=1000.0)
    assert not_worth(stopping, 0.0101, TRIALS) == ""
    assert "takes 10 s and is expected to save 9.9 s of the planned run" in not_worth(stopping, 0.0099, TRIALS)


@pytest.mark.parametrize("planned_s", [None, 59.0])
def test_a_run_of_unknown_length_or_shorter_than_the_budget_ends_by_the_gain_alone(planned_s) -> None:
    stopping = Stopping(budget_s=60.0, planned_s=planned_s)
    assert not_worth(stopping, 0.0051, TRIALS) == ""
    assert not_worth(stopping, 0.0049, TRIALS) == "another trial is expected to save less than 0.5 % of the step"


def made(*speeds: float | None) -> list[SearchTrial]:
    """Trials of candidates of their own."""
    return [
        SearchTrial(number, (number,), Outcome.COMPLETED if speed else Outcome.FAILED, 10.0, samples_per_s=speed)
        for number, speed in enumerate(speeds)
    ]


def test_candidates_in_vain_count_since_the_last_that_was_faster_by_more_than_noise() -> None:
    assert in_vain([]) == 0
    assert in_vain(made(1.0)) == 0
    assert in_vain(made(1.0, 1.02, 0.9)) == 2
    assert in_vain(made(1.0, 0.9, 1.2, 1.1)) == 1
    assert in_vain(made(*(1.025**number for number in range(9)))) == 0


def test_what_failed_or_was_measured_again_is_not_in_vain() -> None:
    assert in_vain(made(1.0, None, 0.9, None, None)) == 1
    assert in_vain([*made(1.0, 0.9), *made(1.0, 0.9)]) == 2


def test_a_search_that_finds_nothing_ends_where_no_long_run_pays_for_it() -> None:
    vain = made(1.0, *[0.9] * PATIENCE)
    assert not_worth(Stopping(), 0.1, vain[:-1]) == ""
    in_vain = "none of the last 8 candidates was faster by more than the noise of 3.0 %"
    assert not_worth(Stopping(), 0.1, vain) == in_vain
    assert not_worth(Stopping(budget_s=60.0, planned_s=1e6), 0.1, vain) == ""
