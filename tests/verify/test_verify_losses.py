from __future__ import annotations

import math
import random

import pytest

from autotune.model.rule import Effect
from autotune.model.verified import LossVerdict
from autotune.verify.losses import compare
from autotune.verify.thresholds import LEAST_LOSSES, TOLERANCE

FALLING = [2.0 * 0.99**step for step in range(40)]
EFFECTS = (Effect.EXACT, Effect.EQUIVALENT, Effect.ALTERING, None)


def scaled(factor: float, losses=FALLING) -> list[float]:
    return [loss * factor for loss in losses]


def drawn(seed: int, shift: float = 0.0, noise: float = 0.02, losses=FALLING) -> list[float]:
    draw = random.Random(seed)
    return [loss + shift + draw.gauss(0, noise) for loss in losses]


def same(before, after, effect=Effect.EQUIVALENT) -> LossVerdict:
    return compare(before, after, effect).sameness


@pytest.mark.parametrize("effect", EFFECTS)
def test_the_same_bits_are_identical_whatever_was_announced(effect) -> None:
    found = compare([FALLING] * 4, [FALLING] * 4, effect)
    assert (found.sameness, found.steps) == (LossVerdict.IDENTICAL, 40)


def test_a_nan_is_as_good_as_another() -> None:
    broken = [1.0, math.nan, math.nan]
    assert same([broken, list(broken)], [list(broken)] * 2) is LossVerdict.IDENTICAL


@pytest.mark.parametrize("after", [scaled(1 + 1e-7), scaled(2)])
def test_an_exact_change_has_to_keep_every_bit(after) -> None:
    found = compare([FALLING] * 2, [after] * 2, Effect.EXACT)
    assert found.sameness is LossVerdict.DIFFERENT
    assert "classified as exact, but step 1 has" in found.why


@pytest.mark.parametrize("effect", [Effect.EQUIVALENT, Effect.ALTERING, None])
@pytest.mark.parametrize(("factor", "found"), [(1 + TOLERANCE / 2, LossVerdict.CLOSE), (1 + TOLERANCE * 2, None)])
def test_other_rounding_is_close_up_to_the_tolerance(effect, factor: float, found) -> None:
    assert (same([FALLING] * 2, [scaled(factor)] * 2, effect) is LossVerdict.CLOSE) == (found is LossVerdict.CLOSE)


@pytest.mark.parametrize("effect", [Effect.EQUIVALENT, Effect.ALTERING, None])
def test_other_draws_of_a_script_with_seeds_are_alike(effect) -> None:
    found = compare([drawn(1)] * 4, [drawn(2)] * 4, effect)
    assert found.sameness is LossVerdict.ALIKE
    assert "over steps" in found.why


@pytest.mark.parametrize("change", [drawn(2, shift=0.1), scaled(0.5), scaled(1.05), [2.0 * 0.97**n for n in range(40)]])
def test_a_change_of_what_is_learned_is_caught(change) -> None:
    assert same([FALLING] * 4, [change] * 4) is LossVerdict.DIFFERENT


def test_a_loss_that_explodes_is_caught_however_scattered_it_is() -> None:
    exploded = [2.0 * (-1.8) ** step if step > 3 else loss for step, loss in enumerate(FALLING)]
    for after in (exploded, [abs(loss) for loss in exploded]):
        found = compare([FALLING] * 4, [after] * 4, Effect.EQUIVALENT)
        assert found.sameness is not LossVerdict.ALIKE
    growing = [2.0 * 1.8**step for step in range(40)]
    assert same([FALLING] * 4, [growing] * 4) is LossVerdict.DIFFERENT
    starts = [[2.0 * (1.5 + seed / 10) ** step for step in range(40)] for seed in range(4)]
    assert same([drawn(seed) for seed in range(4)], starts) is LossVerdict.DIFFERENT


@pytest.mark.parametrize("value", [math.nan, math.inf])
def test_a_loss_that_breaks_is_caught(value: float) -> None:
    assert same([FALLING] * 2, [[*FALLING[:-1], value]] * 2) is LossVerdict.DIFFERENT
    assert same([drawn(1), drawn(2)], [[*FALLING[:-1], value], drawn(3)]) is LossVerdict.DIFFERENT


@pytest.mark.parametrize("effect", [Effect.EQUIVALENT, Effect.ALTERING, None])
def test_a_script_without_seeds_is_compared_by_its_starts(effect) -> None:
    before, after = ([drawn(seed + side) for seed in range(0, 8, 2)] for side in (0, 1))
    found = compare(before, after, effect)
    assert found.sameness is LossVerdict.ALIKE
    assert "over runs" in found.why
    worse = [drawn(seed, shift=0.3) for seed in range(4)]
    assert compare(before, worse, effect).sameness is LossVerdict.DIFFERENT


def test_a_script_without_seeds_cannot_show_that_a_change_is_exact() -> None:
    found = compare([drawn(1), drawn(2)], [drawn(3), drawn(4)], Effect.EXACT)
    assert found.sameness is LossVerdict.NOT_COMPARED
    assert "fix the script's seeds" in found.why


ROUNDED = [*FALLING[:30], *(loss * (1 + 1e-6) for loss in FALLING[30:])]


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ([FALLING, FALLING, ROUNDED], [FALLING] * 3),
        ([FALLING] * 3, [FALLING, ROUNDED, FALLING]),
        ([FALLING, ROUNDED, FALLING], [ROUNDED] * 3),
    ],
)
def test_starts_that_differ_now_and_then_deny_nothing(before, after) -> None:
    assert same(before, after, Effect.EXACT) is LossVerdict.NOT_COMPARED
    assert same(before, after) is LossVerdict.CLOSE


def test_an_exact_change_after_which_no_start_is_as_before_is_none() -> None:
    assert same([FALLING] * 3, [scaled(1.1), scaled(1.2), scaled(1.3)], Effect.EXACT) is LossVerdict.DIFFERENT


def test_every_start_has_to_agree() -> None:
    broken = [*FALLING[:-1], math.nan]
    assert same([FALLING] * 3, [FALLING, FALLING, broken]) is LossVerdict.DIFFERENT
    assert same([FALLING] * 3, [FALLING, FALLING, scaled(1 + 2 * TOLERANCE)]) is not LossVerdict.CLOSE


def test_too_few_steps_are_not_compared_and_that_is_said() -> None:
    few = LEAST_LOSSES - 1
    found = compare([drawn(1)[:few]] * 2, [drawn(2)[:few]] * 2, Effect.EQUIVALENT)
    assert found.sameness is LossVerdict.NOT_COMPARED
    assert found.more_steps == LEAST_LOSSES
    starts = compare([drawn(n)[:few] for n in (1, 2)], [drawn(n)[:few] for n in (3, 4)], None)
    assert starts.sameness is LossVerdict.NOT_COMPARED


def test_an_interval_that_says_nothing_is_no_pass() -> None:
    found = compare([drawn(1, noise=2.0)] * 2, [drawn(2, noise=2.0)] * 2, Effect.ALTERING)
    assert found.sameness is LossVerdict.NOT_COMPARED
    assert found.why.endswith("too wide to tell")
    assert found.more_steps == 80


@pytest.mark.parametrize("after", [[], [None] * 40, [*FALLING[:20], None, *FALLING[21:]]])
def test_unknown_losses_are_not_compared(after) -> None:
    assert same([FALLING] * 2, [after] * 2) is LossVerdict.NOT_COMPARED
    assert same([], []) is LossVerdict.NOT_COMPARED


def test_the_steps_that_both_made_are_compared() -> None:
    assert compare([FALLING, FALLING[:30]], [FALLING] * 2, None).steps == 30


def test_random_draws_are_rarely_called_different() -> None:
    found = [same([drawn(seed)] * 4, [drawn(seed + 1000)] * 4) for seed in range(300)]
    assert found.count(LossVerdict.DIFFERENT) <= 9


def test_seeded_starts_that_round_differently_are_compared_step_by_step() -> None:
    rounded = scaled(1 + TOLERANCE / 10, drawn(1))
    found = compare([drawn(1)] * 3 + [rounded], [drawn(2)] * 4, Effect.EQUIVALENT)
    assert found.sameness is LossVerdict.ALIKE and "over steps" in found.why


def test_an_exact_change_that_is_far_off_is_different_however_starts_round() -> None:
    rounded = scaled(1 + TOLERANCE / 10)
    assert same([FALLING, rounded, FALLING], [scaled(1.5)] * 3, Effect.EXACT) is LossVerdict.DIFFERENT
