from __future__ import annotations

import math

import numpy as np
import pytest

from autotune.model.forecast import Forecast
from autotune.model.tuned import Axis, Space
from autotune.tune import belief
from autotune.tune.belief import believe, candidates, prior

WORKERS = Axis("workers", "loader#train", tuple({"loader.num_workers": count} for count in (0, 1, 2)), 0)
FUSED = Axis("fused", "optimizer#0", ({"optimizer.fused": False}, {"optimizer.fused": True}), 0, is_ordered=False)
SPACE = Space((WORKERS, FUSED))
MS = {0: 100.0, 1: 50.0, 2: 40.0}


def forecast(settings) -> Forecast:
    """Workers have a model, with 30 % of doubt; the optimizer has none."""
    ms = MS[settings["loader.num_workers"]]
    return Forecast(ms, ms / 1.3, ms * 1.3, "modelled", ("optimizer.fused",) if settings["optimizer.fused"] else ())


def believed(measured, forecaster=forecast, space=SPACE):
    """Candidate -> (speed over the user's own, standard deviation of its logarithm)."""
    before = prior(space, forecaster)
    after = believe(before, measured)
    speeds = np.exp(after.mean - after.mean[0])
    return {one: (speeds[at], after.deviation[at]) for at, one in enumerate(before.candidates)}


def test_before_any_trial_the_forecast_is_believed() -> None:
    after = believed([])
    assert {one: speed for one, (speed, _) in after.items()} == pytest.approx(
        {(0, 0): 1.0, (1, 0): 2.0, (2, 0): 2.5, (0, 1): 1.0, (1, 1): 2.0, (2, 1): 2.5}
    )
    assert after[0, 0][1] == pytest.approx(0.0, abs=1e-6)
    assert after[1, 0][1] == pytest.approx(math.log(1.3) / belief.Z90)
    assert after[0, 1][1] == pytest.approx(belief.UNKNOWN_ERROR)


def test_a_trial_is_believed_and_corrects_what_shares_a_point_with_it() -> None:
    after = believed([((0, 0), 10.0), ((0, 1), 13.0)])
    assert after[0, 1][0] == pytest.approx(1.3, rel=0.03)
    assert after[0, 1][1] < 0.05
    assert after[2, 1][0] == pytest.approx(2.5 * 1.3, rel=0.1)
    assert after[2, 0][0] == pytest.approx(2.5, rel=0.03)


def test_a_forecast_that_was_far_off_is_believed_less() -> None:
    right, wrong = believed([((0, 0), 10.0), ((1, 0), 20.0)]), believed([((0, 0), 10.0), ((1, 0), 10.0)])
    assert wrong[1, 0][0] < 1.1
    assert wrong[2, 0][1] > 2 * right[2, 0][1]


def test_trials_that_contradict_one_another_are_noisy() -> None:
    before = prior(SPACE, forecast)
    agreeing, torn = ([((0, 0), 10.0), ((0, 0), 10.0 * factor), ((0, 0), 10.1)] for factor in (1.02, 1.5))
    assert believe(before, agreeing).noise == belief.NOISE
    assert believe(before, torn).noise > belief.NOISE


def test_without_a_forecast_the_trials_alone_speak() -> None:
    after = believed([((0, 0), 10.0), ((2, 0), 20.0)], lambda settings: None)
    assert after[2, 0][0] == pytest.approx(2.0, rel=0.05)
    assert 1.0 < after[1, 0][0] < 2.0
    assert after[0, 1][0] == pytest.approx(1.0, rel=0.01)
    assert not prior(SPACE, lambda settings: None).is_forecast


def test_a_second_trial_of_the_same_narrows_the_belief() -> None:
    once, twice = believed([((0, 0), 10.0)]), believed([((0, 0), 10.0), ((0, 0), 10.4)])
    assert twice[0, 0][1] < once[0, 0][1]


def test_gain_is_expected_of_what_is_better_or_unknown() -> None:
    after = believe(prior(SPACE, forecast), [((0, 0), 10.0)])
    gain = dict(zip(candidates(SPACE), after.gain_over(after.mean[0]), strict=True))
    assert gain[2, 0] > gain[1, 0] > gain[0, 1] > 0.05
    assert gain[0, 0] < 0.02


def test_of_a_large_space_a_part_is_looked_at_always_the_same() -> None:
    axes = tuple(Axis(f"a{n}", "run", tuple({f"a{n}": at} for at in range(10)), 3) for n in range(5))
    every = candidates(Space(axes), also=[(9, 9, 9, 9, 9)])
    assert every[0] == (3, 3, 3, 3, 3)
    assert {(3, 3, 7, 3, 3), (9, 9, 9, 9, 9)} <= set(every)
    assert belief.MOST_CANDIDATES / 2 < len(every) < 2 * belief.MOST_CANDIDATES
    assert every == candidates(Space(axes), also=[(9, 9, 9, 9, 9)])


def test_a_space_without_axes_has_the_users_own() -> None:
    assert believed([((), 10.0)], lambda settings: None, Space(()))[()][0] == 1.0


@pytest.mark.parametrize(
    ("least_ms", "unmodelled", "error"),
    [
        pytest.param(None, (), math.log(1.3) / belief.Z90, id="open above"),
        pytest.param(1.0, (), math.log(1.3) / belief.Z90, id="more to save than it may be wrong by"),
        pytest.param(90.0, (), math.log(100 / 90) / belief.Z90, id="little to save"),
        pytest.param(90.0, ("loader.num_workers",), math.log(100 / 90) / belief.Z90, id="no model needed"),
        pytest.param(100.0, (), belief.SURE_ERROR, id="nothing to save"),
        pytest.param(120.0, (), belief.SURE_ERROR, id="less than nothing"),
    ],
)
def test_a_change_saves_no_more_than_there_is(least_ms, unmodelled, error) -> None:
    said = Forecast(100.0, 100 / 1.3, 130.0, "modelled", unmodelled, least_ms)
    assert prior(SPACE, lambda settings: said).error[0][1] == pytest.approx(error)
