"""Making the starts of a schedule, on a machine that other work may disturb."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

from autotune.errors import BusyError
from autotune.model.verified import Schedule, Start
from autotune.verify.contention import disturbances, is_crowded
from autotune.verify.estimate import LEAST_PAIRS

_WAIT = "Wait until that ends, or verify on a machine of its own. Nothing was changed."


def make(
    run: Callable[[str], Start],
    planned: Schedule,
    rehearsed: Sequence[Start],
    deadline: float,
    clock: Callable[[], float] = time.monotonic,
) -> list[Start]:
    """The starts of `planned`, in its order: `run` makes one of a side. `deadline` is a time of `clock`.

    A start that other work crowded is made once more while the time holds that and LEAST_PAIRS pairs; past those, a
    pair that the time does not hold any more is left out. Raises BusyError after the first pair, while most of the
    budget is still there, when other work disturbed most of the starts so far, rehearsals included.
    """
    start_s = planned.seconds / len(planned.order)
    starts: list[Start] = []
    for place, side in enumerate(planned.order):
        if place == 2:
            refuse_disturbed([*rehearsed, *starts])
        missing = 2 * LEAST_PAIRS - place
        if missing <= 0 and place % 2 == 0 and clock() + 2 * start_s > deadline:
            break
        start = run(side)
        if is_crowded(start) and clock() + max(1, missing) * start_s <= deadline:
            start = run(side)
        starts.append(start)
    return starts


def refuse_disturbed(starts: Sequence[Start]) -> None:
    """Raises BusyError when other work disturbed most of the starts."""
    disturbed = [what for what in disturbances(starts) if what]
    if 2 * len(disturbed) > len(starts):
        causes = " or ".join(dict.fromkeys(disturbed))
        raise BusyError(f"{causes} during {len(disturbed)} of the first {len(starts)} starts", to_do=_WAIT)
