"""Backward passes that go through one graph again and again: which lines start them, and what the repetitions cost."""

from __future__ import annotations

import sys
import time
from bisect import bisect_right
from collections import Counter

from .. import call_sites
from . import loops

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

    from ..shapes import Function, Row

MOST_ROWS = 8
NO_ONE_MADE = 1 << 62
"""Nodes that add gradients up have larger numbers, or negative ones: they belong to a parameter, and to no graph."""

Stack = tuple[tuple[str, int, str, int], ...]
"""The user's frames, the innermost last: file, line, function, and the function's first line."""

Pass = tuple[int, int, Stack]
"""When it began and ended (time.time_ns()), and who started it."""


class BackwardPasses:
    """The hook of backward hands its calls to this while the operations are recorded (`Recorder.passes`)."""

    def __init__(self) -> None:
        self.rows: list[Pass] = []

    def calling(self, backward: Function, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """`backward(*args, **kwargs)`, noted."""
        stack = _users_stack()
        start = time.time_ns()
        try:
            return backward(*args, **kwargs)
        finally:
            self.rows.append((start, time.time_ns(), stack))


def _users_stack() -> Stack:
    frames = [each for each in call_sites.outwards(sys._getframe(2)) if call_sites.is_user(each.f_code.co_filename)]
    return tuple(
        (each.f_code.co_filename, call_sites.line_of(each), each.f_code.co_name, each.f_code.co_firstlineno)
        for each in reversed(frames)
    )


class RepeatedNodes:
    """Nodes that a pass ran and an earlier one from the same stack had run, and the nodes that those made.

    A node is known by its sequence number; each operation of the forward pass makes nodes of its own.
    """

    def __init__(self, passes: Sequence[Pass]) -> None:
        self._passes = passes
        self._starts = [start for start, _, _ in passes]
        self._runs: dict[Stack, Counter[int]] = {}
        self._again_ns: Counter[Stack] = Counter()

    def ran(self, number: int, moment: int, length: int, made_by: Stack | None) -> Stack | None:
        """A node ran at `moment` for `length` ns; the stack whose repetition that was, if it was one.

        A node that a repetition made (`made_by`), for second derivatives, is as needless as that.
        """
        if not 0 <= number < NO_ONE_MADE:
            return None
        stack = self._stack_at(moment)
        if stack is not None:
            runs = self._runs.setdefault(stack, Counter())
            runs[number] += 1
            if runs[number] > 1:
                made_by = stack
        if made_by is not None:
            self._again_ns[made_by] += length
        return made_by

    def _stack_at(self, moment: int) -> Stack | None:
        index = bisect_right(self._starts, moment) - 1
        return self._passes[index][2] if index >= 0 and moment < self._passes[index][1] else None

    def rows(self) -> list[Row]:
        """The `RepeatedPasses` of the Recording, those first whose repetitions took most."""
        ranked = [(stack, again_ns) for stack, again_ns in self._again_ns.most_common(MOST_ROWS) if stack]
        return [
            {
                "frames": stack,
                "passes": max(self._runs[stack].values()),
                "again_ns": again_ns,
                "loops": loops.of_lines((file, line) for file, line, _, _ in stack),
            }
            for stack, again_ns in ranked
        ]
