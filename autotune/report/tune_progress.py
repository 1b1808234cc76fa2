"""The progress of a search on stderr: a line for each trial that ended, and the status line of the current run."""

from __future__ import annotations

import time
from collections.abc import Mapping

from msgspec import Struct, field

from autotune.model.evidence import Value
from autotune.model.tuned import Outcome, SearchTrial, Space
from autotune.model.verified import Schedule
from autotune.outlet import print_stderr
from autotune.report.labels import assignments
from autotune.report.live import ProgressDisplay, RunStatus
from autotune.report.text import ab_result
from autotune.report.text.tune import OUTCOMES
from autotune.report.units import duration, money, step_time

DIAGNOSIS = "diagnosis"
MOST_LINES = 15
"""Of the stderr of a failed run: the end of a traceback."""


class TuneProgress(Struct):
    """Shows what it observes of a search. `price` is USD per hour of this machine, None where it is not known."""

    live: ProgressDisplay
    quiet: bool
    price: float | None
    space: Space = field(default_factory=lambda: Space(()))
    activity: str = DIAGNOSIS
    ends_at: float | None = None
    """On the monotonic clock."""

    baseline_speed: float | None = None
    """Samples per second of the user's own configuration."""

    best: SearchTrial | None = None

    def run_status(self, status: RunStatus) -> None:
        left_s = None if self.ends_at is None else max(0.0, self.ends_at - time.monotonic())
        left = f"; {duration(left_s)} left" if left_s is not None else ""
        self.live.is_shared = self.activity == DIAGNOSIS  # the output of trials is not shown
        self.live.update(status, head=f"{self.activity}{self._best()}{left}")

    def search_started(self, space: Space, trial_s: float, left_s: float | None) -> None:
        self.space, self.ends_at = space, None if left_s is None else time.monotonic() + left_s
        self._print(search_plan(space, trial_s, left_s, self.price))

    def trials_loaded(self, trials: tuple[SearchTrial, ...]) -> None:
        for trial in trials:
            self._compare(trial)
        if trials:
            noun = "trial" if len(trials) == 1 else "trials"
            self._print(f"the study has {len(trials)} {noun} already{self._best()}")

    def trial_started(self, number: int, changes: Mapping[str, Value]) -> None:
        self.activity = f"trial {number}: {assignments(changes)}"

    def run_failed(self, stderr: str) -> None:
        lines = stderr.splitlines()[-MOST_LINES:]
        if lines and not self.quiet:
            self.live.close()
            print_stderr("\n".join(lines))

    def trial_ended(self, trial: SearchTrial) -> None:
        self._compare(trial)
        self._print(f"{self.activity}: {self._result(trial)}")

    def confirmation_started(self, planned: Schedule) -> None:
        self.activity = "A/B confirmation"
        runs = ab_result.plan(planned.seconds, len(planned.order), 0.0, None)
        self._print(f"A/B confirmation of the best candidate: {runs}")

    def interrupted(self) -> str:
        """What an interrupted search has found."""
        if self.best is None:
            return "no trial had finished"
        changes = self.space.changes(self.best.candidate)
        best = assignments(changes) if changes else "the baseline"
        found = f"the best so far was {best}{self._speedup(self.best)}, not confirmed"
        return f"{found}; the trials are stored: continue with the same command and --resume"

    def _compare(self, trial: SearchTrial) -> None:
        if trial.samples_per_s and trial.outcome is Outcome.COMPLETED:
            if self._is_baseline(trial):
                self.baseline_speed = self.baseline_speed or trial.samples_per_s
            fastest = self.best.samples_per_s if self.best is not None else None
            self.best = trial if fastest is None or trial.samples_per_s > fastest else self.best

    def _best(self) -> str:
        factor = self._speedup(self.best) if self.best is not None else ""
        return f"; best {factor.lstrip(', ')}" if factor else ""

    def _result(self, trial: SearchTrial) -> str:
        if trial.step_ms is None or trial.outcome is not Outcome.COMPLETED:
            return f"{OUTCOMES[trial.outcome]}: {trial.error}"
        return f"{step_time(trial.step_ms)} per step{self._speedup(trial)}"

    def _speedup(self, trial: SearchTrial) -> str:
        if self._is_baseline(trial) or not trial.samples_per_s or not self.baseline_speed:
            return ""
        return f", {trial.samples_per_s / self.baseline_speed:.2f}x"

    def _is_baseline(self, trial: SearchTrial) -> bool:
        return trial.candidate == self.space.current

    def _print(self, text: str) -> None:
        if not self.quiet:
            self.live.close()
            print_stderr(f"autotune: {text}")


def search_plan(space: Space, trial_s: float, left_s: float | None, price: float | None) -> str:
    """What is going to be searched and spent, in one line."""
    num_candidates = 1
    for axis in space.axes:
        num_candidates *= len(axis.points)
    names = ", ".join(f"{axis.name} ({len(axis.points)})" for axis in space.axes)
    cost = f", {money(left_s / 3600 * price)} at most" if price is not None and left_s is not None else ""
    within = f"; {duration(left_s)} left{cost}" if left_s is not None else ""
    return f"{num_candidates} configurations of {names}; a trial takes about {duration(trial_s)}{within}"
