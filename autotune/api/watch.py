"""Who is told of what a search does, while it does it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from autotune import collect
from autotune.model.evidence import Value
from autotune.model.tuned import Space, Trial
from autotune.model.verified import Schedule


class Watch(Protocol):
    """Its calls return at once."""

    def status(self, status: collect.Status) -> None:
        """Where the start that runs now is; several times a second."""

    def planned(self, space: Space, trial_s: float, left_s: float | None) -> None:
        """The diagnosis is made: what is searched, what a trial takes, and the seconds that are left."""

    def known(self, trials: tuple[Trial, ...]) -> None:
        """The study has these trials already: of the search that is resumed, or of another tuner."""

    def began(self, number: int, changes: Mapping[str, Value]) -> None:
        """A trial begins."""

    def said(self, text: str) -> None:
        """The last lines that a start which failed wrote to stderr, "" without any; nothing keeps them. Or why the
        study is lost."""

    def ended(self, trial: Trial) -> None:
        """A trial ended."""

    def proving(self, planned: Schedule) -> None:
        """The best is measured against the user's own."""
