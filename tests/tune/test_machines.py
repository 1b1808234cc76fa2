from __future__ import annotations

import pytest

from autotune.model.tuned import Axis, Outcome, Space, Trial
from autotune.tune.machines import as_here

SPACE = Space((Axis("workers", "loader#train", tuple({"loader.num_workers": count} for count in (0, 1, 2)), 1),))
OWN, OTHER, THIRD = (1,), (0,), (2,)


def trial(candidate, speed=None, outcome=Outcome.COMPLETED) -> Trial:
    return Trial(0, candidate, outcome, 1.0, speed, 1000 / speed if speed else None)


def found(*told) -> list[tuple]:
    return [(one.candidate, one.samples_per_s, one.step_ms) for one in as_here(SPACE, told, "here")]


def test_one_machine_has_its_trials_as_they_are() -> None:
    told = [("here", trial(OWN, 10.0)), ("here", trial(OTHER, 20.0)), ("here", trial(THIRD))]
    assert list(as_here(SPACE, told, "here")) == [one for _, one in told]


def test_a_machine_twice_as_fast_says_what_a_change_brings_and_not_how_fast_it_is() -> None:
    told = (
        ("here", trial(OWN, 9.0)),
        ("here", trial(OWN, 11.0)),
        ("fast", trial(OWN, 20.0)),
        ("fast", trial(OTHER, 30.0)),
        ("fast", trial(THIRD, outcome=Outcome.OUT_OF_MEMORY)),
    )
    assert found(*told)[2:] == [(OTHER, pytest.approx(15.0), pytest.approx(1000 / 15)), (THIRD, None, None)]


@pytest.mark.parametrize(
    "told",
    [
        (("here", trial(OWN, 10.0)), ("other", trial(OTHER, 30.0))),
        (("other", trial(OWN, 20.0)), ("other", trial(OTHER, 30.0))),
        (("here", trial(OWN, 10.0)), ("other", trial(OWN)), ("other", trial(OTHER, 30.0))),
    ],
    ids=["the other has not measured the user's own", "this one has not", "it failed there"],
)
def test_without_the_users_own_on_both_a_trial_of_another_machine_says_nothing(told) -> None:
    assert [candidate for candidate, *_ in found(*told)] == [one.candidate for of, one in told if of == "here"]


@pytest.mark.parametrize("outcome", [Outcome.OUT_OF_MEMORY, Outcome.FAILED])
def test_what_cannot_run_on_one_machine_needs_no_measure_to_be_known_on_all(outcome) -> None:
    told = [("other", trial(OWN, outcome=outcome)), ("other", trial(OTHER, outcome=outcome))]
    assert found(*told) == [(OTHER, None, None)]
