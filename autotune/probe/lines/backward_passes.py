"""Backward passes that go through one graph again and again: which lines start them, and what the repetitions cost."""

from __future__ import annotations

import os
import sys
import time
from bisect import bisect_right
from collections import Counter

from .. import call_sites
from . import loops

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from types import FrameType
    from typing import Any

    from ..shapes import Function, Row
    from .line_trace import LineTrace

MOST_ROWS = 8
NO_ONE_MADE = 1 << 62
"""Nodes that add gradients up have larger numbers, or negative ones: they belong to a parameter, and to no graph."""

LIBRARIES = ("site-packages", "dist-packages")
DERIVES = tuple(os.path.join("torch", part) + os.sep for part in ("autograd", "_functorch"))
"""Where torch itself loops over backward passes: Jacobians, Hessians."""

Stack = tuple[tuple[str, int, str, int, str], ...]
"""The user's frames, the innermost last: file, line, function, the function's first line, and what code it calls next:
"" for the user's own or for backward itself, "autograd" for torch's derivatives, else the name of a package."""


class Pass:
    """One backward pass: when it began and ended (time.time_ns()), the stack that started it, and the number of each
    call in that stack (LineTrace.call_numbers)."""

    def __init__(self, start: int, stack: Stack, call_numbers: tuple[int, ...]) -> None:
        self.start = start
        self.end = start
        self.stack = stack
        self.call_numbers = call_numbers


class BackwardPasses:
    """The hook of backward hands its calls to this while the operations are recorded (`Recorder.passes`)."""

    def __init__(self, trace: LineTrace) -> None:
        self.rows: list[Pass] = []
        self._trace = trace

    def calling(self, backward: Function, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """`backward(*args, **kwargs)`, noted."""
        stack = _users_stack(call_sites.outwards(sys._getframe(1)))
        noted = Pass(time.time_ns(), stack, self._trace.call_numbers())
        try:
            return backward(*args, **kwargs)
        finally:
            noted.end = time.time_ns()
            self.rows.append(noted)


def _users_stack(frames: Iterable[FrameType]) -> Stack:
    """`frames`: the innermost first."""
    found, below = [], ""
    for each in frames:
        code = each.f_code
        if call_sites.is_user(code.co_filename):
            found.append((code.co_filename, call_sites.line_of(each), code.co_name, code.co_firstlineno, below))
            below = ""
        elif not call_sites.is_probe(code.co_filename) and not call_sites.is_standard(code.co_filename):
            below = _package(code.co_filename)  # the outermost one between two of the user's
    return tuple(reversed(found))


def _package(filename: str) -> str:
    if any(part in filename for part in DERIVES):
        return "autograd"
    parts = filename.split(os.sep)
    folder = next((parts.index(name) for name in LIBRARIES if name in parts), len(parts) - 2)
    return parts[folder + 1].removesuffix(".py")


class RepeatedNodes:
    """Nodes that a pass ran and an earlier one from the same stack had run, and the nodes that those made.

    A node is known by its sequence number; each operation of the forward pass makes nodes of its own.
    """

    def __init__(self, passes: Sequence[Pass]) -> None:
        self._passes = passes
        self._starts = [one.start for one in passes]
        self._runs: dict[Stack, Counter[int]] = {}
        self._ran_by: dict[tuple[Stack, int], Pass] = {}
        self._in_common: dict[Stack, int] = {}
        self._again_ns: Counter[Stack] = Counter()

    def ran(self, number: int, moment: int, length: int, made_by: Stack | None) -> Stack | None:
        """A node ran at `moment` for `length` ns; the stack whose repetition that was, if it was one.

        A node that a repetition made (`made_by`), for second derivatives, is as needless as that.
        """
        if not 0 <= number < NO_ONE_MADE:
            return None
        one = self._pass_at(moment)
        if one is not None and self._is_again(number, one):
            made_by = one.stack
        if made_by is not None:
            self._again_ns[made_by] += length
        return made_by

    def _is_again(self, number: int, one: Pass) -> bool:
        runs = self._runs.setdefault(one.stack, Counter())
        runs[number] += 1
        before = self._ran_by.get((one.stack, number))
        self._ran_by[one.stack, number] = one
        if before is None or before is one:
            return before is not None
        same = [here == there for here, there in zip(one.call_numbers, before.call_numbers)]
        in_common = [*same, False].index(False)
        self._in_common[one.stack] = min(in_common, self._in_common.get(one.stack, in_common))
        return True

    def _pass_at(self, moment: int) -> Pass | None:
        index = bisect_right(self._starts, moment) - 1
        return self._passes[index] if index >= 0 and moment < self._passes[index].end else None

    def rows(self) -> list[Row]:
        """The `RepeatedPasses` of the Recording, those first whose repetitions took most.

        The loop over the passes runs in the innermost function call that all of them share.
        """
        return [
            {
                "frames": [frame[:4] for frame in stack],
                "passes": max(self._runs[stack].values()),
                "again_ns": again_ns,
                "looping_frame": self._in_common[stack] - 1,
                "callee": stack[self._in_common[stack] - 1][4],
                "loops": loops.of_lines([stack[self._in_common[stack] - 1][:2]]),
            }
            for stack, again_ns in self._again_ns.most_common(MOST_ROWS)
            if self._in_common.get(stack, 0) > 0
        ]
