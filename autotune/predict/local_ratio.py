"""What-if: a part of the step gets faster by a ratio that was measured, or is known as a range (Amdahl's law)."""

from __future__ import annotations

import math

from autotune.model.evidence import Evidence
from autotune.model.finding import Gain
from autotune.predict.gain_inputs import Arguments, gain, number, step_error

RATIO_ERROR = 0.2
"""Of a ratio that was measured in replays."""


def local_ratio(arguments: Arguments, evidence: Evidence, subject: str) -> Gain | None:
    """1 / (1 - share + share / ratio): `share` is the part's fact, `low` and `high` its old time / new time.

    The gain is that of the range's geometric middle, its interval that of both ends and the noise of the step; the
    share was measured, the range was not on this machine. `ratio` is a fact with the measured ratio: where it is
    known it takes the range's place, and the gain is below 1 where it is; `spread` is the fact with the factor by which
    that may be off. None when the share is unknown.
    """
    share = number(evidence, subject, arguments["share"])
    if share is None or not 0 < share < 1:
        return None
    low, high = float(arguments["low"]), float(arguments["high"])
    measured = measured_range(evidence, subject, arguments.get("ratio", ""), arguments.get("spread", ""))
    low, high = measured or (low, high)
    middle, slow, fast = (1 / (1 - share + share / ratio) for ratio in (math.sqrt(low * high), low, high))
    noise = step_error(evidence, 0.0)
    return gain(evidence, subject, middle, (slow * (1 - noise), fast * (1 + noise)), "modelled")


def measured_range(evidence: Evidence, subject: str, ratio: str, spread: str) -> tuple[float, float] | None:
    """The ends of the ratio that the fact `ratio` has, which is off by the factor of the fact `spread` at most."""
    measured = number(evidence, subject, ratio)
    if not measured:
        return None
    error = (1 + RATIO_ERROR) * (number(evidence, subject, spread) or 1.0)
    return measured / error, measured * error
