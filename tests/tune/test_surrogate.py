from __future__ import annotations

import math

import numpy as np
import optuna
import pytest

from autotune.model.forecast import Forecast
from autotune.model.tuned import Axis, Outcome, SearchTrial, Space
from autotune.tune import surrogate as module
from autotune.tune.parameters import candidate, distributions
from autotune.tune.surrogate import SurrogateSampler, candidates, surrogate

WORKERS = Axis("workers", "loader#train", tuple({"loader.num_workers": count} for count in (0, 1, 2)), 0)
FUSED = Axis("fused", "optimizer#0", ({"optimizer.fused": False}, {"optimizer.fused": True}), 0, is_ordered=False)
SPACE = Space((WORKERS, FUSED))
MS = {0: 100.0, 1: 50.0, 2: 40.0}


def forecast(settings) -> Forecast:
    """Workers have a model; the optimizer has none."""
    ms = MS[settings["loader.num_workers"]]
    return Forecast(ms, ms / 1.3, ms * 1.3, "modelled", ("optimizer.fused",) if settings["optimizer.fused"] else ())


def unknown(settings) -> None:
    return None


def after(measured, space=SPACE):
    """Candidate -> (speed over the baseline, standard deviation of its logarithm)."""
    found = surrogate(space, unknown).posterior(measured)
    speeds = np.exp(found.mean - found.mean[0])
    return {one: (speeds[at], found.deviation[at]) for at, one in enumerate(found.candidates)}


def test_before_any_trial_every_candidate_is_as_fast_and_a_combination_is_less_certain() -> None:
    found = after([])
    assert {speed for speed, _ in found.values()} == {1.0}
    assert found[0, 0][1] == pytest.approx(0.0, abs=1e-6)
    assert found[1, 0][1] == found[0, 1][1] == pytest.approx(module.EFFECT)
    assert found[1, 1][1] == pytest.approx(module.EFFECT * math.sqrt(2 * (1 + module.INTERACTION**2)))


def test_a_trial_informs_every_candidate_that_shares_a_point_with_it() -> None:
    found = after([((0, 0), 10.0), ((0, 1), 13.0)])
    assert found[0, 1][0] == pytest.approx(1.3, rel=0.03)
    assert found[0, 1][1] < 0.05
    assert found[2, 1][0] == pytest.approx(1.3, rel=0.1)
    assert found[2, 0][0] == pytest.approx(1.0, rel=0.03)


def test_points_of_an_ordered_axis_inform_their_neighbours() -> None:
    found = after([((0, 0), 10.0), ((2, 0), 20.0)])
    assert found[2, 0][0] == pytest.approx(2.0, rel=0.05)
    assert 1.0 < found[1, 0][0] < 2.0


def test_trials_that_contradict_one_another_are_noisy() -> None:
    agreeing, torn = ([((0, 0), 10.0), ((0, 0), 10.0 * factor), ((0, 0), 10.1)] for factor in (1.02, 1.5))
    assert surrogate(SPACE, unknown).posterior(agreeing).noise == module.NOISE
    assert surrogate(SPACE, unknown).posterior(torn).noise > module.NOISE


def test_a_second_trial_of_the_same_candidate_makes_it_more_certain() -> None:
    once, twice = after([((0, 0), 10.0)]), after([((0, 0), 10.0), ((0, 0), 10.4)])
    assert twice[0, 0][1] < once[0, 0][1]


def test_improvement_is_expected_of_what_is_fast_or_uncertain() -> None:
    found = surrogate(SPACE, unknown).posterior([((0, 0), 10.0), ((1, 0), 14.0)])
    gain = dict(zip(found.candidates, found.expected_improvement(found.mean_of((1, 0))), strict=True))
    assert gain[1, 1] > gain[0, 1] > gain[0, 0]
    assert gain[1, 0] < 0.02


def test_a_fixed_sample_of_a_large_space_is_considered() -> None:
    axes = tuple(Axis(f"a{n}", "run", tuple({f"a{n}": at} for at in range(10)), 3) for n in range(5))
    every = candidates(Space(axes), also=[(9, 9, 9, 9, 9)])
    assert every[0] == (3, 3, 3, 3, 3)
    assert {(3, 3, 7, 3, 3), (9, 9, 9, 9, 9)} <= set(every)
    assert module.MAX_CANDIDATES / 2 < len(every) < 2 * module.MAX_CANDIDATES
    assert every == candidates(Space(axes), also=[(9, 9, 9, 9, 9)])


def test_a_space_without_axes_has_the_baseline() -> None:
    assert after([((), 10.0)], Space(()))[()][0] == 1.0


@pytest.mark.parametrize(
    ("least_ms", "unmodelled", "effect"),
    [
        pytest.param(None, (), module.EFFECT, id="no bound"),
        pytest.param(1.0, (), module.EFFECT, id="much to save"),
        pytest.param(90.0, (), math.log(100 / 90) / module.Z90, id="little to save"),
        pytest.param(90.0, ("loader.num_workers",), math.log(100 / 90) / module.Z90, id="no model needed"),
        pytest.param(100.0, (), module.BOUNDED_EFFECT, id="nothing to save"),
        pytest.param(120.0, (), module.BOUNDED_EFFECT, id="less than nothing"),
    ],
)
def test_a_change_saves_no_more_than_there_is(least_ms, unmodelled, effect) -> None:
    said = Forecast(100.0, 100 / 1.3, 130.0, "modelled", unmodelled, least_ms)
    assert surrogate(SPACE, lambda settings: said).effect[0][1] == pytest.approx(effect)


def test_of_equal_forecasts_the_first_is_ranked_and_nothing_that_is_not_faster() -> None:
    assert surrogate(SPACE, forecast).best_forecasts() == {(2, 0): 2.5, (1, 0): 2.0}
    assert surrogate(SPACE, unknown).best_forecasts() == {}


def test_the_speedup_that_is_expected_is_that_of_the_forecast() -> None:
    def sampler(forecaster):
        return SurrogateSampler(SPACE, forecaster, lambda study: ((), ()))

    assert sampler(forecast).expected((2, 1)) == 2.5
    assert sampler(unknown).expected((2, 1)) is None


def test_it_is_a_sampler_of_optuna() -> None:
    def known(study):
        ended = [one for one in study.trials if one.state.is_finished()]
        found = [
            SearchTrial(one.number, candidate(SPACE, one.params), Outcome.COMPLETED, 1.0, one.value) for one in ended
        ]
        return found, ()

    study = optuna.create_study(sampler=SurrogateSampler(SPACE, unknown, known), direction="maximize")
    tried = []
    for _ in range(6):
        trial = study.ask(distributions(SPACE))
        tried.append(candidate(SPACE, trial.params))
        study.tell(trial, 10.0 + sum(tried[-1]))
    assert sorted(tried) == sorted(candidates(SPACE))
    assert tried.index((2, 1)) < 4
