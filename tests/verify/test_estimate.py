from __future__ import annotations

import math
import random

import pytest
from verify_builders import start

from autotune.model.verified import Verdict
from autotune.verify.estimate import FEWEST_PAIRS, LEAST_PAIRS, LEAST_SPREAD, MOST_PAIRS, estimate
from autotune.verify.schedule import order
from autotune.verify.verdict import verdict


def starts(draw: random.Random, pairs: int, noise: float, slower: float = 1.0) -> tuple[list[float], list[float]]:
    """Step times of both sides: noise of each start, a slow drift of the machine, and now and then a hiccup."""
    sides: dict[str, list[float]] = {"before": [], "after": []}
    drift = 0.0
    for side in order(pairs):
        drift += draw.gauss(0, noise / 3)
        hiccup = draw.expovariate(1 / 0.15) if draw.random() < 0.05 else 0.0
        time = 100 * math.exp(drift + draw.gauss(0, noise) + hiccup)
        sides[side].append(time * (slower if side == "after" else 1.0))
    return sides["before"], sides["after"]


def verdicts(pairs: int, noise: float, slower: float, runs: int = 1000) -> dict[Verdict, int]:
    draw = random.Random(pairs)
    found = [verdict(estimate(*starts(draw, pairs, noise, slower)), [start()])[0] for _ in range(runs)]
    return {kind: found.count(kind) for kind in Verdict}


@pytest.mark.parametrize("noise", [0.002, 0.01, 0.015, 0.03])
@pytest.mark.parametrize("pairs", [3, 4, 5, 6, 10])
def test_identical_files_have_no_winner_in_a_thousand_runs(pairs: int, noise: float) -> None:
    found = verdicts(pairs, noise, 1.0)
    assert found[Verdict.FASTER] + found[Verdict.SLOWER] == 0


@pytest.mark.parametrize("noise", [0.06, 0.15])
@pytest.mark.parametrize("pairs", [3, 4, 10])
def test_on_a_noisy_machine_a_winner_is_a_rare_accident(pairs: int, noise: float) -> None:
    found = verdicts(pairs, noise, 1.0)
    assert found[Verdict.FASTER] + found[Verdict.SLOWER] <= 5


def test_a_slowdown_of_ten_percent_is_called_on_a_quiet_machine() -> None:
    draw = random.Random(1)
    quiet = [
        estimate([draw.gauss(100, 1) for _ in range(5)], [draw.gauss(110, 1) for _ in range(5)]) for _ in range(500)
    ]
    assert sum(verdict(each, [start()])[0] is Verdict.SLOWER for each in quiet) >= 490


def test_the_speedup_is_the_geometric_mean_of_the_pairs() -> None:
    found = estimate([100, 200, 100, 200], [50, 50, 50, 50])
    assert found.speedup == pytest.approx(math.sqrt(2 * 4))
    assert found.low < found.speedup < found.high
    assert found.is_apart


def test_the_interval_of_99_percent_holds_that_of_95() -> None:
    found = estimate(*starts(random.Random(3), 5, 0.02))
    assert found.surely[0] < found.low < found.high < found.surely[1]


def test_starts_that_agree_by_luck_do_not_make_the_interval_a_point() -> None:
    found = estimate([100] * 4, [100] * 4)
    assert found.spread == LEAST_SPREAD
    assert found.high / found.low > 1.03
    assert not found.is_apart


def test_pairs_that_agree_do_not_hide_that_starts_of_a_side_differ() -> None:
    steady, drifting = estimate([100] * 4, [90] * 4), estimate([100, 150, 225, 337], [90, 135, 202, 303])
    assert drifting.low < steady.low
    assert drifting.spread > 0.3


def test_the_other_way_round_is_the_inverse() -> None:
    before, after = starts(random.Random(4), 6, 0.02, 1.2)
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


def test_two_pairs_say_little_and_more_say_more() -> None:
    found = [estimate([100.0, 103.0] * half, [66.0, 67.0] * half, in_turns=True) for half in (1, 2, 5)]
    assert [verdict(one, [start()])[0] for one in found] == [Verdict.CANNOT_TELL, Verdict.FASTER, Verdict.FASTER]
    widths = [one.high / one.low for one in found]
    assert widths == sorted(widths, reverse=True)


def test_a_later_look_has_to_be_surer() -> None:
    sides = starts(random.Random(3), 10, 0.02)
    first, second = (estimate(*sides, look=look) for look in (1, 2))
    assert (first.low, first.high) == (second.low, second.high)
    assert second.surely[0] < first.surely[0] < first.surely[1] < second.surely[1]


@pytest.mark.parametrize("noise", [0.01, 0.05, 0.2])
def test_identical_files_have_no_winner_however_often_they_are_looked_at(noise: float) -> None:
    """As `rounds` goes on while they do not tell: 10, 15, 20, 25 and 30 pairs."""
    draw, winners = random.Random(7), 0
    for _ in range(400):
        before = [math.exp(draw.gauss(0, 0.3)) for _ in range(30)]
        after = [one * math.exp(draw.gauss(0, noise)) for one in before]
        for look in range(1, 6):
            pairs = 5 + 5 * look
            said = verdict(estimate(before[:pairs], after[:pairs], True, look), [start()])[0]
            if said is not Verdict.CANNOT_TELL:
                break
        winners += said in (Verdict.FASTER, Verdict.SLOWER)
    assert winners <= 0.02 * 400


def test_what_took_turns_is_told_apart_whatever_the_machine_did_meanwhile() -> None:
    drift = [1.0, 1.4, 1.1, 1.6, 1.2, 0.9]
    before, after = [100 * one for one in drift], [110 * one for one in drift]
    one_by_one, in_turns = (estimate(before, after, together) for together in (False, True))
    assert one_by_one.speedup == in_turns.speedup == pytest.approx(1 / 1.1)
    assert verdict(one_by_one, [start()])[0] is Verdict.CANNOT_TELL
    assert verdict(in_turns, [start()])[0] is Verdict.SLOWER
    assert in_turns.spread == LEAST_SPREAD
    torn = estimate(before, [*after[:-1], 82.0], in_turns=True)
    assert verdict(torn, [start()])[0] is Verdict.CANNOT_TELL


@pytest.mark.parametrize("noise", [0.002, 0.01, 0.03, 0.1])
@pytest.mark.parametrize("pairs", [3, 4, 6])
def test_identical_files_that_took_turns_have_a_winner_by_rare_accident(pairs: int, noise: float) -> None:
    draw = random.Random(pairs)
    found = []
    for _ in range(1000):
        before = [100 * math.exp(draw.gauss(0, 0.2)) for _ in range(pairs)]
        after = [one * math.exp(draw.gauss(0, noise)) for one in before]
        found.append(verdict(estimate(before, after, in_turns=True), [start()])[0])
    # 1 of 100 at most, and 20 are three standard deviations more; hardly any where noise is below the margin.
    assert found.count(Verdict.FASTER) + found.count(Verdict.SLOWER) <= (20 if noise > 0.03 else 10)
