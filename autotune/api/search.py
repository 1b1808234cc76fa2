"""One search while it goes on: what its stages share, and the trials that it may still make."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass

from autotune import predict
from autotune.api.searches import Kept
from autotune.api.watch import Watch
from autotune.model.evidence import Value
from autotune.model.forecast import Forecast
from autotune.model.report import Report
from autotune.model.tuned import Candidate, Outcome, Trial
from autotune.tune import proof
from autotune.tune.study import Study
from autotune.tune.trial import Trials
from autotune.verify.estimate import LEAST_PAIRS

LOST = (Outcome.FAILED, Outcome.TIMED_OUT)
"""Trials of which the script's own last words may say why."""


@dataclass(frozen=True, slots=True)
class Search:
    """What the stages of one search share; `ends_at` is a time of the monotonic clock, None without a budget, and
    `num_trials` the most that the study may hold, None for any."""

    kept: Kept
    report: Report
    trials: Trials
    study: Study
    watch: Watch
    ends_at: float | None
    num_trials: int | None

    @property
    def left_s(self) -> float | None:
        """Seconds that are left of the budget; None without one."""
        return None if self.ends_at is None else self.ends_at - time.monotonic()

    @property
    def proof_s(self) -> float:
        """What the proof takes, about."""
        return proof.SLACK * 2 * LEAST_PAIRS * self.trials.usual.trial_s

    def holds_proof(self, more_s: float = 0.0) -> bool:
        """Whether the time that is left holds a proof, and so many seconds more."""
        return self.left_s is None or self.left_s >= self.proof_s + more_s

    def forecast(self, settings: Mapping[str, Value]) -> Forecast | None:
        """The step that the diagnosis lets expect under these settings."""
        return predict.step_ms(settings, self.report.evidence)

    def attempt(self, number: int, candidate: Candidate, forecast: float | None) -> Trial:
        """One trial. The reader is told of its end when it is kept, and of what a lost one wrote at once."""
        self.watch.began(number, self.trials.space.changes(candidate))
        trial = self.trials.attempt(number, candidate, forecast)
        if trial.outcome in LOST:
            self.watch.said(self.trials.said)
        return trial

    def tried(self, candidate: Candidate) -> Trial | None:
        """One trial more, for the patch; None where time or trials are used up, or another tuner makes it just now."""
        has_trials = self.num_trials is None or len(self.study.trials()) < self.num_trials
        if not has_trials or not self.holds_proof(self.trials.usual.trial_s):
            return None
        with self.study.attempt(candidate) as asked:
            if asked is None:
                return None
            trial = self.attempt(asked.number, asked.candidate, None)
            self.study.tell(asked, trial)
        return trial if asked.candidate == candidate else None
