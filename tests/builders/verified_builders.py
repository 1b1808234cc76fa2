"""A verification as the outputs get it."""

from __future__ import annotations

from autotune.model.finding import Gain
from autotune.model.patch import PatchChange
from autotune.model.rule import Effect
from autotune.model.verified import (
    AFTER,
    BEFORE,
    Estimate,
    LossComparison,
    LossVerdict,
    Memory,
    Schedule,
    Verdict,
    Verified,
)

CHANGE = PatchChange("loader.num_workers", "loader#train", 0, 4, ("DL001",), Effect.EQUIVALENT)


def verified(**fields) -> Verified:
    """Faster by a half, as predicted; `fields` replace any part."""
    given = {
        "against": "1 of 1 changes of run r",
        "changes": (CHANGE,),
        "verdict": Verdict.FASTER,
        "why": "",
        "estimate": Estimate(1.5, 1.45, 1.55, 0.012),
        "step_ms": (120.0, 80.0),
        "is_per_sample": False,
        "losses": LossComparison(LossVerdict.IDENTICAL, 43, "bit-identical in every step of all runs"),
        "memory": Memory("processes", 800 << 20, 1600 << 20),
        "schedule": Schedule((BEFORE, AFTER, AFTER, BEFORE) * 2, 40, 3, 40.0),
        "seconds": 52.0,
        "predicted": Gain(1.4, 1.2, 1.6, "modelled"),
        **fields,
    }
    return Verified(**given)
