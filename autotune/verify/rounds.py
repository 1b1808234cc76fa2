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
    run: Callable[[tuple[str, str]], Sequence[Start]],
    planned: Schedule,
    rehearsed: Sequence[Start],
    deadline: float,
    clock: Callable[[], float] = time.monotonic,
) -> list[Start]:
    """The starts of `planned`, in its order: `run` makes a pair. `deadline` is a time of `clock`.

    A pair that other work crowded is made once more while the time holds that and LEAST_PAIRS pairs; past those, a
    pair that the time does not hold any more is left out. Raises BusyError after the first pair, while most of the
    budget is still there, when other work disturbed most of the starts so far, rehearsals included.
    """
    pairs = list(zip(planned.order[::2], planned.order[1::2], strict=True))
    pair_s = planned.seconds / len(pairs)
    starts: list[Start] = []
    for place, pair in enumerate(pairs):
        if place == 1:
            refuse_disturbed([*rehearsed, *starts])
        missing = LEAST_PAIRS - place
        if missing <= 0 and clock() + pair_s > deadline:
            break
        made = run(pair)
        if any(map(is_crowded, made)) and clock() + max(1, missing) * pair_s <= deadline:
            made = run(pair)
        starts += made
    return starts


def refuse_disturbed(starts: Sequence[Start]) -> None:
    """Raises BusyError when other work disturbed most of the starts."""
    disturbed = [what for what in disturbances(starts) if what]
    if 2 * len(disturbed) > len(starts):
        causes = " or ".join(dict.fromkeys(disturbed))
        raise BusyError(f"{causes} during {len(disturbed)} of the first {len(starts)} starts", to_do=_WAIT)
