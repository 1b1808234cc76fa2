"""What-if: a part of the step gets faster by a ratio that is known as a range (Amdahl's law)."""

from __future__ import annotations

import math

from autotune.model.evidence import Evidence
from autotune.model.finding import Gain
from autotune.predict.known import Arguments, gain, number, step_error


def local_ratio(arguments: Arguments, evidence: Evidence, subject: str) -> Gain | None:
    """1 / (1 - share + share / ratio): `share` is the part's fact, `low` and `high` its old time / new time.

    The gain is that of the range's geometric middle, its interval that of both ends and the noise of the step; the
    share was measured, the range was not on this machine. None when the share is unknown.
    """
    share = number(evidence, subject, arguments["share"])
    if share is None or not 0 < share < 1:
        return None
    low, high = float(arguments["low"]), float(arguments["high"])
    middle, slow, fast = (1 / (1 - share + share / ratio) for ratio in (math.sqrt(low * high), low, high))
    noise = step_error(evidence, 0.0)
    return gain(evidence, subject, middle, (slow * (1 - noise), fast * (1 + noise)), "modelled")
