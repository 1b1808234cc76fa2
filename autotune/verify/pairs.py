"""Measuring the pairs of a schedule, and more of them while they are inconclusive and the time allows it."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping, Sequence

from msgspec import Struct
from msgspec.structs import replace

from autotune import collect
from autotune.errors import UsageError
from autotune.model.verified import RunResult, TimeSlicing
from autotune.verify.runs import MemoryShortError, Ran, SideRunner
from autotune.verify.schedule import Pair, pair
from autotune.verify.thresholds import FEWEST_PAIRS, FURTHER_PAIRS, LEAST_PAIRS, MOST_LOOKS


def measure(
    run: Callable[[Pair], Sequence[RunResult]],
    planned: int,
    pair_s: float,
    deadline: float,
    is_conclusive: Callable[[Sequence[RunResult], int], bool],
    *,
    earlier: Sequence[RunResult] = (),
    look: int = 1,
    clock: Callable[[], float] = time.monotonic,
) -> tuple[list[RunResult], int]:
    """The runs, the `earlier` ones first, and how often they were judged.

    `run` measures a pair, the first of which takes about `pair_s`; `deadline` is a time of `clock`. `planned` more
    pairs are measured, LEAST_PAIRS in all if the time allows it, and then FURTHER_PAIRS at a time until
    `is_conclusive`, which gets the runs and the look. A pair that does not fit into the time any more is left out; the
    first LEAST_PAIRS may exceed it by one run.
    """
    starts = list(earlier)
    goal = max(LEAST_PAIRS, len(earlier) // 2 + planned)
    while True:
        while len(starts) // 2 < goal:
            number = len(starts) // 2
            needed_s = pair_s if number >= LEAST_PAIRS else pair_s / 2
            if clock() + needed_s > deadline:
                return starts, look
            began = clock()
            starts += run(pair(number))
            pair_s = clock() - began
        if look >= MOST_LOOKS or len(starts) // 2 < FEWEST_PAIRS or is_conclusive(starts, look):
            return starts, look
        if clock() + pair_s > deadline:
            return starts, look
        goal, look = goal + FURTHER_PAIRS, look + 1


def refuse_few(starts: Sequence[RunResult], seconds: float, pair_s: float) -> None:
    """Raises UsageError for fewer pairs than an interval needs."""
    pairs = len(starts) // 2
    if pairs < FEWEST_PAIRS:
        least = math.ceil(max((LEAST_PAIRS - pairs) * pair_s, seconds)) + 1
        raise UsageError(
            f"the budget allowed only {pairs} of {LEAST_PAIRS} pairs: runs took longer than the rehearsals",
            where="--budget",
            to_do=f"They are stored: --resume --budget {least}s continues from there.",
        )


class PairRunner(Struct):
    """Measures pairs: in time slices while that goes well, else one run after the other.

    A run may begin to measure earlier than its rehearsal suggested, as the machine became less busy: then the pair is
    repeated, with slices that begin in half the time. `turns` is None once that failed, too, or memory was short: a
    script may want a port, a lock or the memory for itself.
    """

    runner: SideRunner
    turns: TimeSlicing | None
    _is_repeated: bool = False

    def make(self, requests: Mapping[str, collect.Request]) -> dict[str, Ran]:
        """The runs of the sides of `requests`, in that order."""
        while self.turns is not None:
            try:
                ran = self.runner.in_turns(requests, self.turns)
            except MemoryShortError:
                self.turns = None
                break
            if ran is not None:
                return ran
            self.turns = None if self._is_repeated else replace(self.turns, together_s=self.turns.together_s / 2)
            self._is_repeated = True
        return {side: self.runner.run(side, request) for side, request in requests.items()}
