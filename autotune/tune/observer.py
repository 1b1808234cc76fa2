"""The observer of a search."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from autotune import collect
from autotune.model.evidence import Value
from autotune.model.tuned import SearchTrial, Space
from autotune.model.verified import Schedule


class TuneObserver(Protocol):
    """Its calls return at once."""

    def run_status(self, status: collect.Status) -> None:
        """Where the current run is; several times a second."""

    def search_started(self, space: Space, trial_s: float, left_s: float | None) -> None:
        """The search begins: its space, the seconds of a trial, and the seconds that are left of the budget."""

    def trials_loaded(self, trials: tuple[SearchTrial, ...]) -> None:
        """The trials that the study has already: of the search that is resumed, or of another tuner."""

    def trial_started(self, number: int, changes: Mapping[str, Value]) -> None:
        """A trial begins."""

    def run_failed(self, stderr: str) -> None:
        """The last lines that a failed run wrote to stderr, "" without any. They are not stored."""

    def trial_ended(self, trial: SearchTrial) -> None:
        """A trial ended, and its result is stored."""

    def confirmation_started(self, planned: Schedule) -> None:
        """The best is going to be measured against the baseline."""
