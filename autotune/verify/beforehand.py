"""What a verification costs at least, before anything is run for it: from a start that is known."""

from __future__ import annotations

import math
from pathlib import Path

from autotune import collect
from autotune.collect import artefacts
from autotune.errors import UsageError
from autotune.model.verified import BEFORE, Start
from autotune.verify.estimate import FEWEST_PAIRS, LEAST_PAIRS
from autotune.verify.schedule import REHEARSED_STEPS, TOGETHER, least_s

END_S = 0.5
"""From the end of a window to the end of the last process."""

TRUST = 0.8
"""Of the least cost: a budget below that does not suffice, however much a start differs from one that was seen."""


def expected(root: Path, run: str) -> Start | None:
    """A start of the unchanged script, as the diagnosis of a run saw it; None where that tells too little."""
    try:
        folder = artefacts.resolve(run, root)
        manifest, recordings = artefacts.read_json(folder / artefacts.MANIFEST), collect.load(folder)
    except UsageError:
        return None
    window = recordings[0].window if recordings else None
    startup_s = manifest.get("startup_s") if isinstance(manifest, dict) else None
    if window is None or window.steps < 1 or not isinstance(startup_s, int | float):
        return None
    step_ms = (window.end_ns - window.start_ns) / window.steps / 1e6
    made = window.warmup_steps + window.steps
    on_cpu = (recordings[0].device or {}).get("type") == "cpu" and len(recordings) == 1
    wall_s = startup_s + (made - 1) * step_ms / 1000 + END_S
    return Start(BEFORE, step_ms, window.steps, window.warmup_steps, wall_s, may_be_stopped=on_cpu)


def refuse(budget_s: float, start: Start, loss_steps: int | None, seen: str) -> None:
    """Raises UsageError where the budget surely does not hold FEWEST_PAIRS pairs, by a start of the unchanged script.

    The changed one starts as slowly, and its steps take no time at all: less than that it cannot cost.
    """
    least, useful = _least_s(start, loss_steps), _useful_s(start, loss_steps)
    if budget_s < TRUST * least:
        raise UsageError(
            f"{budget_s:.0f} s cannot suffice: a run takes about {_start_s(start, loss_steps):.0f} s, {seen}, and "
            f"a verification needs at least {2 + 2 * FEWEST_PAIRS} runs",
            where="--budget",
            to_do=f"This suffices if the changed script is no slower: --budget {math.ceil(useful)}s",
        )


def _start_s(start: Start, loss_steps: int | None) -> float:
    return least_s([start, start], loss_steps) / 2 / LEAST_PAIRS


def _rehearsal_s(start: Start) -> float:
    return start.fixed_s + (start.warmup + REHEARSED_STEPS) * start.step_ms / 1000


def _least_s(start: Start, loss_steps: int | None) -> float:
    both_s = _start_s(start, loss_steps) + start.fixed_s * (1 - TOGETHER if start.may_be_stopped else 1.0)
    return _rehearsal_s(start) + start.fixed_s + FEWEST_PAIRS * both_s


def _useful_s(start: Start, loss_steps: int | None) -> float:
    return 1.1 * (2 * _rehearsal_s(start) + least_s([start, start], loss_steps))
