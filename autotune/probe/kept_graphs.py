"""Which steps' autograd graphs are still alive when the window ends, and who holds them.

Backward frees what a graph saved, not its nodes, and the nodes of a tensor that the script keeps stay. Each node
carries the number of the operation that made it (torch's sequence number, counted per thread), so a number noted at
each step's end says which step a live node is of. Nothing is run again: one look at the live objects, after the window.
"""

from __future__ import annotations

import functools
import gc
import os
import sys
from bisect import bisect_left
from collections import deque

from . import call_sites, clock

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from types import FrameType
    from typing import Any

    from .shapes import Row

MOST_NODES = 200_000
MOST_NS = 1_000_000_000
LEAST_CAPACITY = 1000
"""A bounded deque of fewer items costs nothing while it fills."""

MOST_FRAMES, MOST_ITEMS = 50, 500
"""What is searched for the variable that holds graphs: frames of the stack, the last items of a list or dict."""


def sequence_number() -> int:
    """How many operations of this thread torch has recorded for autograd; -1 where it does not say."""
    return _count()()


@functools.cache
def _count() -> Callable[[], int]:
    """Looked for once, as in describe.is_profiling."""
    count: Callable[[], int] = getattr(sys.modules["torch"].autograd, "_get_sequence_nr", lambda: -1)
    return count


def look(numbers: list[int]) -> Row | None:
    """The KeptGraphs fields; `numbers` are those at the ends of the steps. None where torch does not number nodes."""
    if len(numbers) < 2 or numbers[0] < 0:
        return None
    try:
        graphs, bounded, filling = _live(len(numbers))
        held = _held([tensor for tensor in graphs if id(tensor) not in bounded], numbers)
        holder = _holder(graphs, numbers) if _is_most(held, numbers) else None
        return {"num_steps": len(held), "num_filling": filling, "holder": holder}
    except Exception:  # any object of the script's was looked at, and one of an odd type may refuse: it is unknown
        return None


def _is_most(held: set[int], numbers: list[int]) -> bool:
    return 2 * len(held) > len(numbers)


def _live(num_steps: int) -> tuple[list[Any], set[int], int]:
    """(live tensors with a graph, ids of those in bounded deques, bounded deques that the steps still fill)."""
    tensor = sys.modules["torch"].Tensor
    is_tensor: dict[type, bool] = {}
    graphs: list[Any] = []
    bounded: set[int] = set()
    filling = 0
    for each in gc.get_objects():
        kind = type(each)  # not isinstance: a lazy proxy would be made to load
        if kind not in is_tensor:
            is_tensor[kind] = issubclass(kind, tensor)
        if is_tensor[kind]:
            graphs += [each] if _node(each) is not None else []
        elif kind is deque and each.maxlen is not None:
            bounded.update(id(item) for item in each)
            filling += num_steps <= len(each) < each.maxlen and each.maxlen >= LEAST_CAPACITY
    return graphs, bounded, filling


def _node(tensor: Any) -> Any:
    """The node that made a tensor; None of a leaf, and where asking fails (a view that was changed in place)."""
    try:
        return tensor.grad_fn
    except Exception:
        return None


def _held(graphs: list[Any], numbers: list[int]) -> set[int]:
    """The steps of which nodes of these tensors' graphs live, by their index in `numbers`: those before its end.

    What was made before the end of the first one belongs to no step.
    """
    late = clock.now() + MOST_NS
    waiting = deque(node for node in map(_node, graphs) if node is not None)
    seen, steps = set(waiting), set()
    while waiting and len(seen) < MOST_NODES and clock.now() < late:
        node = waiting.popleft()
        number = node._sequence_nr()
        if numbers[0] <= number < numbers[-1]:  # a leaf has the largest number that there is
            steps.add(bisect_left(numbers, number + 1))
        for before, _ in node.next_functions:
            if before is not None and before not in seen:
                seen.add(before)
                waiting.append(before)
    return steps


def _holder(graphs: list[Any], numbers: list[int]) -> Row | None:
    """The variable of the user's that holds graphs of most steps, of the innermost function that has one."""
    known = {id(tensor) for tensor in graphs}
    frame: FrameType | None = sys._getframe(1)
    for _ in range(MOST_FRAMES):
        if frame is None:
            return None
        if call_sites.is_user(frame.f_code.co_filename):
            for name, value in _variables(frame):
                own = [each for each in _tensors(value) if id(each) in known]
                if own and _is_most(_held(own, numbers), numbers):
                    file = os.path.abspath(frame.f_code.co_filename)
                    return {"name": name, "file": file, "line": call_sites.line_of(frame)}
        frame = frame.f_back
    return None


def _variables(frame: FrameType) -> list[tuple[str, Any]]:
    """Locals, attributes of `self` and globals of a frame."""
    own = frame.f_locals
    fields = getattr(own.get("self"), "__dict__", {})
    outer = frame.f_globals if own is not frame.f_globals else {}
    return [*own.items(), *((f"self.{name}", value) for name, value in fields.items()), *outer.items()]


def _tensors(value: Any, depth: int = 2) -> list[Any]:
    """The tensors in lists, tuples, deques and dicts, themselves and one level below."""
    if isinstance(value, (dict, list, tuple, deque)) and depth:
        items = list(value.values() if isinstance(value, dict) else value)[-MOST_ITEMS:]
        return [tensor for item in items for tensor in _tensors(item, depth - 1)]
    return [value] if type(value) is sys.modules["torch"].Tensor else []
