from __future__ import annotations

import pytest

from autotune.model.patch import PatchChange
from autotune.model.rule import Effect
from autotune.model.verified import LossComparison, LossVerdict
from autotune.verify.accumulation_scaling import SETTING, explained

BEFORE = [2.0, 1.9, 1.8, 1.7]


def told(
    factor: float, old: int = 4, new: int = 2, sameness: LossVerdict = LossVerdict.DIFFERENT, setting: str = SETTING
) -> str:
    change = PatchChange(setting, "run", old, new, ("GA004",), Effect.EQUIVALENT)
    found = LossComparison(sameness, len(BEFORE), "the mean differs")
    return explained(found, BEFORE, [factor * loss for loss in BEFORE], [change]).why


@pytest.mark.parametrize("factor", [0.5, 0.505])
def test_a_sum_that_nobody_divides_is_named(factor: float) -> None:
    assert "adds them up undivided, so that gradients change" in told(factor)


def test_losses_that_are_divided_twice_are_named() -> None:
    assert "divides by their number twice, so that gradients change" in told(2.0)


@pytest.mark.parametrize("factor", [0.9, 1.1, 0.53, 0.47])
def test_other_differences_are_left_as_they_are(factor: float) -> None:
    assert told(factor) == "the mean differs"


def test_only_a_difference_with_a_change_of_the_accumulation_is_explained() -> None:
    assert told(0.5, sameness=LossVerdict.ALIKE) == "the mean differs"
    assert told(0.5, setting="loader.batch_size") == "the mean differs"
    assert told(0.5, old=2, new=2) == "the mean differs"


def test_unknown_losses_explain_nothing() -> None:
    change = PatchChange(SETTING, "run", 4, 2, ("GA004",), Effect.EQUIVALENT)
    found = LossComparison(LossVerdict.DIFFERENT, 2, "why")
    assert explained(found, [None, None], [1.0, 2.0], [change]) == found
    assert explained(found, [0.0, 0.0], [1.0, 2.0], [change]) == found
