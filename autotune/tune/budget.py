"""What a search has to be given: the seconds of its diagnosis, its trials and its confirmation."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path

from autotune.errors import UsageError
from autotune.history import commands
from autotune.tune import confirmation
from autotune.tune.trial import BaselineRun
from autotune.verify import budget_check
from autotune.verify.thresholds import END_S, LEAST_PAIRS, SPARE

LEAST_TRIALS = 3
"""A budget for fewer trials finds nothing."""


def confirmation_s(trial_s: float) -> float:
    """What a confirmation takes, about, where a trial takes `trial_s`."""
    return confirmation.SLACK * 2 * LEAST_PAIRS * trial_s


def refuse_by_last_diagnosis(budget_s: float, root: Path, words: Sequence[str], cwd: Path) -> None:
    """Raises UsageError where the newest diagnosis of this command shows that the budget is too small: a search begins
    with another one."""
    seen = budget_check.newest(root, commands.runs(words, cwd, root))
    if seen is not None:
        step_s = seen.start.step_ms / 1000
        startup_s = max(0.0, seen.start.fixed_s + step_s - END_S)
        trial_s = BaselineRun(step_s, startup_s, None, seen.start.epoch_steps).trial_s
        refuse(budget_s, seen.wall_s, trial_s, f"by the diagnosis {seen.run}, which took {seen.wall_s:.0f} s")


def refuse(budget_s: float, diagnosis_s: float, trial_s: float, seen: str) -> None:
    """Raises UsageError where a budget does not hold the diagnosis, the fewest trials and the confirmation."""
    least_s = diagnosis_s + LEAST_TRIALS * trial_s + confirmation_s(trial_s)
    if budget_s < least_s:
        raise UsageError(
            f"{budget_s:.0f} s cannot suffice: a run takes about {trial_s:.0f} s, {seen}, and after the diagnosis a "
            f"search needs at least {LEAST_TRIALS + 2 * LEAST_PAIRS} runs",
            where="--budget",
            to_do=f"This suffices: --budget {math.ceil(SPARE * least_s)}s",
        )
