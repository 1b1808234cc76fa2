"""What a verification costs at least, before anything is run for it: from a run that is known."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

from msgspec import Struct

from autotune import collect, derive
from autotune.collect import artefacts
from autotune.errors import UsageError
from autotune.model.verified import BEFORE, RunResult
from autotune.verify import epoch_windows
from autotune.verify.schedule import least_s, sufficient_s
from autotune.verify.thresholds import END_S, FEWEST_PAIRS, FEWEST_RUNS, LEAST_PAIRS, REHEARSED_STEPS, TOGETHER


class Seen(Struct, frozen=True):
    """What the diagnosis `run` saw: a run (`start`) of the unchanged script, and how long the diagnosis took."""

    run: str
    start: RunResult
    wall_s: float


def newest(root: Path, runs: Iterable[str]) -> Seen | None:
    """What the first of these runs saw that tells enough; None where none does."""
    return next(filter(None, (_seen(root, run) for run in runs if run)), None)


def _seen(root: Path, run: str) -> Seen | None:
    try:
        folder = artefacts.resolve(run, root)
        manifest, recordings = artefacts.read_json(folder / artefacts.MANIFEST), collect.load(folder)
    except UsageError:
        return None
    window = recordings[0].window if recordings else None
    startup_s, took_s = _seconds(manifest, "startup_s"), _seconds(manifest, "wall_s")
    if window is None or window.steps < 1 or startup_s is None:
        return None
    step_ms = (window.end_ns - window.start_ns) / window.steps / 1e6
    made = window.warmup_steps + window.steps
    on_cpu = recordings[0].device_type == "cpu" and len(recordings) == 1
    wall_s = startup_s + (made - 1) * step_ms / 1000 + END_S
    epoch_steps = epoch_windows.observed_epochs(derive.derive(recordings))
    start = RunResult(
        BEFORE, step_ms, window.steps, window.warmup_steps, wall_s, may_be_stopped=on_cpu, epoch_steps=epoch_steps
    )
    return Seen(run, start, took_s or wall_s)


def _seconds(manifest: Any, name: str) -> float | None:
    value = manifest.get(name) if isinstance(manifest, dict) else None
    return float(value) if isinstance(value, int | float) else None


def refuse(budget_s: float, start: RunResult, loss_steps: int | None, seen: str) -> None:
    """Raises UsageError where the budget does not hold FEWEST_PAIRS pairs, judged by a run of the unchanged
    script.

    This assumes that the changed script starts as slowly and that its steps take no time: a lower bound.
    """
    if budget_s < _least_s(start, loss_steps):
        enough = sufficient_s(2 * _rehearsal_s(start), 2 * _start_s(start, loss_steps))
        raise UsageError(
            f"{budget_s:.0f} s cannot suffice: a run takes about {_start_s(start, loss_steps):.0f} s, {seen}, and "
            f"a verification needs at least {FEWEST_RUNS} runs",
            where="--budget",
            to_do=f"This suffices if the changed script is no slower: --budget {enough}s",
        )


def _start_s(start: RunResult, loss_steps: int | None) -> float:
    return least_s([start, start], loss_steps) / 2 / LEAST_PAIRS


def _rehearsal_s(start: RunResult) -> float:
    return start.fixed_s + (start.warmup + REHEARSED_STEPS) * start.step_ms / 1000


def _least_s(start: RunResult, loss_steps: int | None) -> float:
    both_s = _start_s(start, loss_steps) + start.fixed_s * (1 - TOGETHER if start.may_be_stopped else 1.0)
    return _rehearsal_s(start) + start.fixed_s + FEWEST_PAIRS * both_s
