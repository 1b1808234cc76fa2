"""What was blocked and what was not isolated: trackers, hub pushes, child programs, connections."""

from __future__ import annotations

import os
import posix

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ..shapes import Row

MOST_ROWS = 50
NOTES = "not-isolated-"
"""Begins the names of files in the run's folder: a line for what a process could not isolate."""


class Isolated:
    """What was blocked and what could not be isolated, each said once. Never holds arguments: they may be secrets.

    A process that forks, and then executes a program, writes no Recording: what cannot be isolated is also written to a
    file in `run_dir` ("" for none) before it happens.
    """

    def __init__(self, run_dir: str = "") -> None:
        self._run_dir = run_dir
        self._blocked: dict[str, int] = {}
        self._not_isolated: dict[str, int] = {}

    def blocked(self, what: str) -> None:
        """A side effect that did not happen, e.g. "wandb.init (runs disabled)"."""
        self._blocked[what] = self._blocked.get(what, 0) + 1

    def not_isolated(self, what: str) -> None:
        """A side effect that may happen now, e.g. "subprocess: git push"."""
        self._not_isolated[what] = self._not_isolated.get(what, 0) + 1
        if self._run_dir and self._not_isolated[what] == 1 and len(self._not_isolated) <= MOST_ROWS:
            self._write(what)

    def _write(self, what: str) -> None:
        try:
            path = f"{self._run_dir}/{NOTES}{posix.getpid()}"
            # Not open(): the overlay stands in for it.
            descriptor = posix.open(path, posix.O_CREAT | posix.O_WRONLY | posix.O_APPEND, 0o644)
            try:
                posix.write(descriptor, os.fsencode(what.replace("\n", "\\n") + "\n"))
            finally:
                posix.close(descriptor)
        except OSError:
            pass

    def rows(self) -> dict[str, list[Row]]:
        """{"blocked": [{what}], "not_isolated": [{what}]}, with the count behind what happened more than once."""
        return {"blocked": _rows(self._blocked), "not_isolated": _rows(self._not_isolated)}


def _rows(counts: dict[str, int]) -> list[Row]:
    texts = [what if count == 1 else f"{what} ({count} times)" for what, count in counts.items()]
    more = [f"and {len(texts) - MOST_ROWS} more"] if len(texts) > MOST_ROWS else []
    return [{"what": text} for text in (*texts[:MOST_ROWS], *more)]
