"""The two starts of a pair: in turns while that goes well, and else one after the other."""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import Struct
from msgspec.structs import replace

from autotune import collect
from autotune.model.verified import TimeSlicing
from autotune.verify.runs import MemoryShortError, Ran, SideRunner


class PairRunner(Struct):
    """Makes pairs of starts. A start may begin to measure earlier than the rehearsal let expect, as the machine became
    less busy: then the pair is made again, with turns from half as early on. `turns` is None once that did not go well
    either, or memory was short: a script may want a port, a lock or the memory for itself."""

    runner: SideRunner
    turns: TimeSlicing | None
    _is_again: bool = False

    def make(self, requests: Mapping[str, collect.Request]) -> dict[str, Ran]:
        """The starts of the sides of `requests`, in that order."""
        while self.turns is not None:
            try:
                ran = self.runner.in_turns(requests, self.turns)
            except MemoryShortError:
                self.turns = None
                break
            if ran is not None:
                return ran
            self.turns = None if self._is_again else replace(self.turns, together_s=self.turns.together_s / 2)
            self._is_again = True
        return {side: self.runner.run(side, request) for side, request in requests.items()}
