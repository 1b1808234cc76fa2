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

SUMS = ("SumBackward0", "MeanBackward0")
"""Nodes that add up all that there is."""

SUMS_OF_ROWS = ("SumBackward1", "MeanBackward1")
"""Nodes that add up along some dimensions."""

PICKS = ("SelectBackward0", "UnbindBackward0")

Stack = tuple[tuple[str, int, str, int, str], ...]
"""The user's frames, the innermost last: file, line, function, the function's first line, and what code it calls next:
"" for the user's own or for backward itself, "autograd" for torch's derivatives, else the name of a package."""


Output = tuple[tuple[int, int], ...]
"""What torch.autograd.grad derives: of each tensor the number of its node and which of the node's results it is."""


class Pass:
    """One backward pass: when it began and ended (time.time_ns()), the stack that started it, the number of each
    call in that stack (LineTrace.call_numbers), what it derives; None where that is not known to be the same
    derivative by other inputs; and whether that is one column of a tensor."""

    def __init__(
        self,
        start: int,
        stack: Stack,
        call_numbers: tuple[int, ...],
        output: Output | None = None,
        is_of_column: bool = False,
    ) -> None:
        self.start = start
        self.end = start
        self.stack = stack
        self.call_numbers = call_numbers
        self.output = output
        self.is_of_column = is_of_column


class BackwardPasses:
    """The hook of backward hands its calls to this while the operations are recorded (`Recorder.passes`)."""

    def __init__(self, trace: LineTrace) -> None:
        self.rows: list[Pass] = []
        self._trace = trace

    def calling(self, backward: Function, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """`backward(*args, **kwargs)`, noted."""
        stack = _users_stack(call_sites.outwards(sys._getframe(1)))
        output = _differentiated(args, kwargs) if backward.__name__ == "grad" else None
        noted = Pass(time.time_ns(), stack, self._trace.call_numbers(), output, _is_of_column(args, kwargs))
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


def _differentiated(args: tuple[Any, ...], kwargs: dict[str, Any]) -> Output | None:
    """Of a call of torch.autograd.grad. None where the derivatives are weighed by numbers that another call may have
    otherwise, as those of a Jacobian are."""
    given = dict(zip(("outputs", "inputs", "grad_outputs"), args), **kwargs)
    try:
        weights = [each for each in _listed(given.get("grad_outputs")) if each is not None]
        if any(_is_captured(each) or bool((each != 1).any()) for each in weights):
            return None
        return tuple(map(_summed, _listed(given["outputs"])))
    except Exception:  # an output without a graph, a tensor that shows no numbers
        return None


def _is_of_column(args: tuple[Any, ...], kwargs: dict[str, Any]) -> bool:
    """Whether a call of backward or grad derives one column of a tensor, which every sample has a part in."""
    given = args[0] if args else kwargs.get("tensors", kwargs.get("outputs"))
    try:
        return all(_picks_column(tensor.grad_fn) for tensor in _listed(given))
    except Exception:  # an output without a graph
        return False


def _picks_column(node: Any) -> bool:
    while node.name() in SUMS:
        node = node.next_functions[0][0]
    if node.name() not in PICKS:
        return False
    whole, dimension = node.next_functions[0][0], node._saved_dim
    if dimension < 0:  # torch.select(y, -1, 0), whose node does not count from the front
        dimension += len(node._saved_self_sym_sizes)
    return dimension != 0 or (whole.name() in SUMS_OF_ROWS and 0 in whole._saved_dim)


def _is_captured(tensor: Any) -> bool:
    """Whether its numbers cannot be read, because a CUDA graph is being recorded."""
    return bool(tensor.is_cuda and sys.modules["torch"].cuda.is_current_stream_capturing())


def _summed(tensor: Any) -> tuple[int, int]:
    """The node of an output, and which of its results it is; of a sum those of what was added up: its derivative has
    weights of one."""
    node, result = tensor.grad_fn, tensor.output_nr
    if node.name() == "SumBackward0":
        node, result = node.next_functions[0]
    return node._sequence_nr(), result


def _listed(given: Any) -> Sequence[Any]:
    return given if isinstance(given, (list, tuple)) else [given]


Node = tuple[int, int]
"""The thread whose operation made a node of the graph, and its sequence number: each thread counts its own. On CUDA a
thread of the engine makes what a backward pass computes again, and the nodes of second derivatives."""

Again = tuple["Stack | None", "Output | None"]
"""Whose repetition a node is: a stack's, and an output's."""


class RepeatedNodes:
    """Nodes that a pass ran and an earlier one had run, and the nodes that those made: of passes from the same stack,
    and of passes that derive the same output.

    Each operation of the forward pass makes nodes of its own.
    """

    def __init__(self, passes: Sequence[Pass]) -> None:
        self._passes = passes
        self._starts = [one.start for one in passes]
        self._by_stack = _Repetitions()
        self._by_output = _Repetitions()
        self._others = {one.stack for one in passes if not one.is_of_column}
        self._in_common: dict[Stack, int] = {}

    def ran(self, node: Node, moment: int, length: int, made_by: Again | None) -> Again | None:
        """`node` ran at `moment` for `length` ns; whose repetition that was, if it was one.

        A node that a repetition made (`made_by`), for second derivatives, is as needless as that.
        """
        if not 0 <= node[1] < NO_ONE_MADE:
            return None
        one = self._pass_at(moment)
        of_stack, of_output = made_by if made_by is not None else (None, None)
        if one is not None:
            before = self._by_stack.before(one.stack, node, one)
            if before is not None:
                of_stack = one.stack
                self._note_common(one, before)
            if one.output is not None and self._by_output.before(one.output, node, one) is not None:
                of_output = one.output
        self._by_stack.took(of_stack, length)
        self._by_output.took(of_output, length)
        return (of_stack, of_output) if of_stack is not None or of_output is not None else None

    def _note_common(self, one: Pass, before: Pass) -> None:
        if before is one:
            return
        same = [here == there for here, there in zip(one.call_numbers, before.call_numbers)]
        in_common = [*same, False].index(False)
        self._in_common[one.stack] = min(in_common, self._in_common.get(one.stack, in_common))

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
                "passes": self._by_stack.most_runs(stack),
                "again_ns": again_ns,
                "nodes": self._by_stack.num_again[stack],
                "are_of_columns": stack not in self._others,
                "looping_frame": self._in_common[stack] - 1,
                "callee": stack[self._in_common[stack] - 1][4],
                "loops": loops.of_lines([stack[self._in_common[stack] - 1][:2]]),
            }
            for stack, again_ns in self._by_stack.again_ns.most_common(MOST_ROWS)
            if self._in_common.get(stack, 0) > 0
        ]

    def of_one_output(self) -> list[Row]:
        """The `DerivedOneByOne` of the Recording, those first whose repetitions took most.

        Outputs that the same lines derive are one row: those of several steps, and of several calls of a function.
        """
        stacks: dict[Output, list[Stack]] = {}
        for one in self._passes:
            if one.output is not None:
                stacks.setdefault(one.output, []).append(one.stack)
        rows: dict[tuple[tuple[str, int, str], ...], Row] = {}
        for output, again_ns in self._by_output.again_ns.items():
            lines = _diverging_frames(stacks[output])
            row = rows.setdefault(lines, {"lines": list(lines), "passes": 0, "again_ns": 0})
            row["passes"] = max(row["passes"], self._by_output.most_runs(output))
            row["again_ns"] += again_ns
        return sorted(rows.values(), key=lambda row: -row["again_ns"])[:MOST_ROWS]


class _Repetitions:
    """Runs of nodes by the passes of one group: those of a stack, or of an output."""

    def __init__(self) -> None:
        self.again_ns: Counter[Any] = Counter()
        self.num_again: Counter[Any] = Counter()
        self._runs: dict[Any, Counter[Node]] = {}
        self._ran_by: dict[tuple[Any, Node], Pass] = {}

    def before(self, group: Any, node: Node, one: Pass) -> Pass | None:
        """The pass of the group that ran the node before this run; None if this is the first."""
        runs = self._runs.setdefault(group, Counter())
        runs[node] += 1
        before = self._ran_by.get((group, node))
        self._ran_by[group, node] = one
        return before

    def took(self, group: Any, length: int) -> None:
        if group is not None:
            self.again_ns[group] += length
            self.num_again[group] += 1

    def most_runs(self, group: Any) -> int:
        return max(self._runs[group].values())


def _diverging_frames(stacks: Sequence[Stack]) -> tuple[tuple[str, int, str], ...]:
    """(file, line, function) of the first frames that are not the same in all stacks: the calls of a helper that
    derives. One line, the innermost, where they do not part."""
    shared = 0
    while all(len(stack) > shared + 1 and stack[shared] == stacks[0][shared] for stack in stacks):
        shared += 1
    return tuple(dict.fromkeys(stack[shared][:3] for stack in stacks))
