"""Answers of `fit` for tests of what is made of them."""

from __future__ import annotations

from msgspec.structs import replace

from autotune.model.fitted import CardAnswer, CardFit, Fitted, FitVerdict, MemoryNeed
from autotune.model.outlook import ValueRange

GIB = 2**30
NEED = MemoryNeed(4, 2048, 60 * GIB, 66 * GIB, {"weights": 13 * GIB, "gradients": 13 * GIB, "activations": 30 * GIB})


def card(name="a100-80", verdict=FitVerdict.FITS, **changes):
    """The answer for one card, of one size; `changes` are of that."""
    ms = ValueRange(600.0, 1400.0, "assumed")
    one = CardFit(NEED, verdict, 13 * GIB, ms, ValueRange(600.0, 1400.0, "assumed"), ValueRange(0.3, 0.7, "assumed"))
    return CardAnswer(name, name.upper(), 79 * GIB, (replace(one, **changes),), 5, 1.89, "2026-11-20")


def close():
    """A card whose end lies within the interval."""
    return replace(card("a100-64", FitVerdict.TOO_CLOSE, margin=-2 * GIB), limit=64 * GIB, usd_per_hour=None, largest=0)


def fitted(**changes):
    """A whole answer: two cards, one of which is too small."""
    small = card("t4", FitVerdict.DOES_NOT_FIT, margin=-51 * GIB, step_ms=None, run_s=None, usd=None)
    cards = (card(), replace(small, limit=15 * GIB, largest=0))
    one = Fitted(("python", "train.py"), "fake steps", cards, 1, None, 1000, 56.0, ("train.py:21 reads a value",))
    return replace(one, **changes)
