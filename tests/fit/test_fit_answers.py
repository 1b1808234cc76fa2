"""From recorded fake steps to the answer for a card."""

from __future__ import annotations

from fit_builders import record, step

from autotune.catalogue.devices import asked
from autotune.fit.fit import FitOptions, answer

A100 = asked("a100-80")


def options(*cards, **given):
    return FitOptions(("train.py",), cards or (A100,), **given)


def test_the_largest_micro_batch_is_of_the_length_that_was_asked_for():
    own = [step(samples=1, rest=1, length=128), step(samples=2, rest=2, length=128)]
    longer = [step(samples=1, rest=10, length=512), step(samples=2, rest=20, length=512)]
    found = record(*own, *longer)
    assert answer(A100, found, options(lengths=(512,))).largest == 5
    assert answer(A100, found, options(lengths=(128, 512))).largest == 5
    assert answer(A100, found, options(lengths=(128,))).largest == answer(A100, found, options()).largest > 40
    assert answer(A100, record(*own), options(lengths=(512,))).largest is None
