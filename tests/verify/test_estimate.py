from __future__ import annotations

import math
import random

import pytest
from verify_builders import start

from autotune.model.verified import Verdict
from autotune.verify.estimate import estimate, level
from autotune.verify.schedule import order
from autotune.verify.thresholds import (
    FEWEST_PAIRS,
    FURTHER_PAIRS,
    LEAST_PAIRS,
    LEAST_SPREAD,
    LEVEL,
    MOST_LOOKS,
    MOST_PAIRS,
)
from autotune.verify.verdict import verdict


def step_times(draw: random.Random, pairs: int, noise: float, slower: float = 1.0) -> tuple[list[float], list[float]]:
    """Of both sides: noise of each run, a slow drift of the machine, and now and then a hiccup."""
    sides: dict[str, list[float]] = {"before": [], "after": []}
    drift = 0.0
    for side in order(pairs):
        drift += draw.gauss(0, noise / 3)
        hiccup = draw.expovariate(1 / 0.15) if draw.random() < 0.05 else 0.0
        time = 100 * math.exp(drift + draw.gauss(0, noise) + hiccup)
        sides[side].append(time * (slower if side == "after" else 1.0))
    return sides["before"], sides["after"]


def judged(before: list[float], after: list[float], look: int = 1) -> Verdict:
    return verdict(estimate(before, after, look), [start()])[0]


def winners(pairs: int, noise: float, runs: int = 1000) -> int:
    draw = random.Random(pairs)
    found = [judged(*step_times(draw, pairs, noise)) for _ in range(runs)]
    return found.count(Verdict.FASTER) + found.count(Verdict.SLOWER)


@pytest.mark.parametrize("noise", [0.002, 0.01, 0.015])
@pytest.mark.parametrize("pairs", [3, 4, 5, 6, 10])
def test_identical_files_have_no_winner_in_a_thousand_runs_on_a_quiet_machine(pairs: int, noise: float) -> None:
    assert winners(pairs, noise) == 0


@pytest.mark.parametrize("noise", [0.03, 0.06, 0.15, 0.5])
@pytest.mark.parametrize("pairs", [2, 3, 4, 10])
def test_identical_files_have_a_winner_as_rarely_as_the_first_look_says(pairs: int, noise: float) -> None:
    # 40 of 1000, that is 25 and three standard deviations.
    assert winners(pairs, noise) <= 40


@pytest.mark.parametrize("noise", [0.01, 0.05, 0.2])
def test_identical_files_have_a_winner_as_rarely_as_the_level_says_however_often_they_are_judged(noise: float) -> None:
    draw, runs, wrong = random.Random(7), 400, 0
    for _ in range(runs):
        before, after = step_times(draw, MOST_PAIRS + (MOST_LOOKS - 1) * FURTHER_PAIRS, noise)
        for look in range(1, MOST_LOOKS + 1):
            pairs = MOST_PAIRS + (look - 1) * FURTHER_PAIRS
            said = judged(before[:pairs], after[:pairs], look)
            if said is not Verdict.CANNOT_TELL:
                break
        wrong += said in (Verdict.FASTER, Verdict.SLOWER)
    assert wrong <= (1 - LEVEL) * runs


def test_all_looks_together_have_the_level() -> None:
    assert level(1) == 0.975
    assert sum(1 - level(look) for look in range(1, 30)) == pytest.approx(1 - LEVEL)


def test_a_slowdown_of_ten_percent_is_found_on_a_quiet_machine() -> None:
    draw = random.Random(1)
    found = [judged(*([draw.gauss(mean, 1) for _ in range(5)] for mean in (100, 110))) for _ in range(500)]
    assert found.count(Verdict.SLOWER) >= 490


def test_the_speedup_is_the_geometric_mean_of_the_pairs() -> None:
    found = estimate([100, 200, 100, 200], [50, 50, 50, 50])
    assert found.speedup == pytest.approx(math.sqrt(2 * 4))
    assert found.low < found.speedup < found.high


def test_the_interval_is_the_one_of_the_table() -> None:
    """Ratios of 1.1, 1.2 and 1.3; t of 97.5 % and two degrees of freedom is 6.205."""
    logs = [math.log(ratio) for ratio in (1.1, 1.2, 1.3)]
    mean = sum(logs) / 3
    error = math.sqrt(sum((log - mean) ** 2 for log in logs) / 2 / 3)
    found = estimate([110, 120, 130], [100, 100, 100])
    assert found.low == pytest.approx(math.exp(mean - 6.205 * error), rel=1e-4)
    assert found.high == pytest.approx(math.exp(mean + 6.205 * error), rel=1e-4)


def test_pairs_that_agree_by_luck_do_not_make_the_interval_a_point() -> None:
    found = estimate([100] * 4, [100] * 4)
    assert found.spread == LEAST_SPREAD
    assert found.high / found.low > 1.03


def test_the_inverse_comparison_has_the_inverse_interval() -> None:
    before, after = step_times(random.Random(4), 6, 0.02, 1.2)
    one, other = estimate(before, after), estimate(after, before)
    assert one.speedup == pytest.approx(1 / other.speedup)
    assert one.low == pytest.approx(1 / other.high)


@pytest.mark.parametrize("sizes", [(FEWEST_PAIRS - 1,) * 2, (5, 6), (0, 0)])
def test_what_is_no_number_of_pairs_is_refused(sizes) -> None:
    with pytest.raises(ValueError, match="pairs"):
        estimate([1.0] * sizes[0], [1.0] * sizes[1])


@pytest.mark.parametrize("pairs", [FEWEST_PAIRS, LEAST_PAIRS, MOST_PAIRS, 3 * MOST_PAIRS])
def test_every_number_of_pairs_has_its_quantiles(pairs: int) -> None:
    assert estimate([1.0] * pairs, [1.0] * pairs).speedup == 1


def test_two_pairs_show_large_gains_only_and_more_show_more() -> None:
    found = [estimate([100.0, 103.0] * half, [80.0, 81.0] * half) for half in (1, 2, 5)]
    assert [verdict(one, [start()])[0] for one in found] == [Verdict.CANNOT_TELL, Verdict.FASTER, Verdict.FASTER]
    widths = [one.high / one.low for one in found]
    assert widths == sorted(widths, reverse=True)


def test_a_later_look_has_a_wider_interval() -> None:
    sides = step_times(random.Random(3), 10, 0.02)
    first, second = (estimate(*sides, look) for look in (1, 2))
    assert second.low < first.low < first.high < second.high


def test_what_slows_both_runs_of_a_pair_does_not_widen_the_interval() -> None:
    drift = [1.0, 1.4, 1.1, 1.6, 1.2, 0.9]
    found = estimate([100 * one for one in drift], [110 * one for one in drift])
    assert (found.speedup, found.spread) == (pytest.approx(1 / 1.1), LEAST_SPREAD)
    assert verdict(found, [start()])[0] is Verdict.SLOWER
    torn = estimate([100 * one for one in drift], [*(110 * one for one in drift[:-1]), 82.0])
    assert verdict(torn, [start()])[0] is Verdict.CANNOT_TELL
