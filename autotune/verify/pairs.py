"""The two starts of a pair: in turns while that goes well, and else one after the other."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from autotune import collect
from autotune.model.verified import Turns
from autotune.verify.starts import MemoryShortError, Ran, Runner


@dataclass(slots=True)
class Pairs:
    """Makes pairs of starts. `turns` is None once two did not go well at once: a script may want a port, a lock or the
    memory for itself, or begin to measure earlier than it was expected to."""

    runner: Runner
    turns: Turns | None

    def make(self, requests: Mapping[str, collect.Request]) -> dict[str, Ran]:
        """The starts of the sides of `requests`, in that order."""
        if self.turns is not None:
            try:
                ran = self.runner.in_turns(requests, self.turns)
            except MemoryShortError:
                ran = None
            if ran is not None:
                return ran
            self.turns = None
        return {side: self.runner.run(side, request) for side, request in requests.items()}
