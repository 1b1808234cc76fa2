from __future__ import annotations

import math
import random

import pytest

from autotune.model.verified import Estimate
from autotune.verify import low_quantile
from autotune.verify.estimate import estimate

ANY = Estimate(1.0, 0.5, 2.0, (0.3, 3.0), 0.2, False)


def rows(draw: random.Random, starts: int, factor: float = 1.0, steps: int = 60) -> list[list[float]]:
    """Steps of 10 ms, every tenth of 30; other work holds up a fifth of the steps, and some starts as a whole."""
    found = []
    for _ in range(starts):
        slow = 1.3 if draw.random() < 0.2 else 1.0
        held_up = [8.0 if draw.random() < 0.2 else 0.0 for _ in range(steps)]
        times = [30.0 if step % 10 == 9 else 10.0 for step in range(steps)]
        pairs = zip(times, held_up, strict=True)
        found.append([factor * slow * time * draw.gauss(1, 0.01) + more for time, more in pairs])
    return found


def both(seed: int, starts: int = 8, factor: float = 1.0):
    draw = random.Random(seed)
    before, after = rows(draw, starts), rows(draw, starts, factor)
    of_all = estimate(*([sum(row) / len(row) for row in side] for side in (before, after)))
    return low_quantile.estimate(before, after, of_all), of_all


def test_what_held_steps_up_is_left_out_and_what_belongs_to_the_script_is_not() -> None:
    found, sides = low_quantile.estimate(rows(random.Random(1), 10), rows(random.Random(2), 10, 1.5), ANY)
    assert sides[0] == pytest.approx(12.0, rel=0.02)
    assert sides[1] == pytest.approx(18.0, rel=0.02)
    assert found.speedup == pytest.approx(1 / 1.5, rel=0.02)
    assert found.is_undisturbed


def test_it_says_more_than_the_mean_of_all_and_is_true() -> None:
    runs = [both(seed, factor=1.1) for seed in range(40)]
    told = [(found[0], of_all) for found, of_all in runs if found is not None]
    assert len(told) >= 36
    assert all(found.high / found.low < of_all.high / of_all.low for found, of_all in told)
    assert sum(found.surely[0] <= 1 / 1.1 <= found.surely[1] for found, _ in told) >= len(told) - 1
    assert sum(found.surely[1] < 1 / 1.02 for found, _ in told) >= 0.9 * len(told)


def test_identical_files_have_no_winner() -> None:
    found = [one[0] for seed in range(200) if (one := both(seed)[0]) is not None]
    assert len(found) > 150
    assert not any(one.surely[0] > 1.02 or one.surely[1] < 1 / 1.02 for one in found)


@pytest.mark.parametrize("starts", [4, 6, 10])
@pytest.mark.parametrize("sigma", [0.01, 0.03, 0.1])
def test_starts_of_the_same_files_that_differ_as_a_whole_have_no_winner(starts: int, sigma: float) -> None:
    """The interval that is reported, of all times or of the undisturbed ones, holds 1 about as often as it says."""
    draw, runs = random.Random(1), 150

    def side() -> list[list[float]]:
        paces = [10 * math.exp(draw.gauss(0, sigma)) for _ in range(starts)]
        return [[pace * math.exp(abs(draw.gauss(0, 0.01))) for _ in range(20)] for pace in paces]

    told = []
    for _ in range(runs):
        before, after = side(), side()
        of_all = estimate(*([sum(row) / len(row) for row in rows] for rows in (before, after)))
        found = low_quantile.estimate(before, after, of_all)
        told.append(found[0] if found is not None else of_all)
    winners = [one for one in told if one.is_apart and (one.surely[0] > 1.02 or one.surely[1] < 1 / 1.02)]
    assert len(winners) <= 0.01 * runs
    assert sum(one.low <= 1 <= one.high for one in told) >= 0.91 * runs


def test_what_contradicts_the_mean_of_all_is_no_estimate() -> None:
    before, after = rows(random.Random(1), 8), rows(random.Random(2), 8, 1.5)
    assert low_quantile.estimate(before, after, Estimate(1.0, 0.5, 2.0, (0.9, 1.1), 0.01, False)) is None


def test_what_is_wider_than_the_mean_of_all_is_no_estimate() -> None:
    steady = [[10.0] * 20] * 4
    assert low_quantile.estimate(steady, steady, Estimate(1.0, 0.999, 1.001, (0.99, 1.01), 0.01, False)) is None


def test_few_steps_are_no_estimate() -> None:
    few = [[10.0] * (low_quantile.LEAST_STEPS - 1)] * 4
    assert low_quantile.estimate(few, [[10.0] * 20] * 4, ANY) is None


def test_steps_that_agree_by_luck_do_not_make_the_interval_a_point() -> None:
    found, _ = low_quantile.estimate([[10.0] * 20] * 4, [[10.0] * 20] * 4, ANY)
    assert found.high / found.low > 1.03
    assert not found.is_apart
