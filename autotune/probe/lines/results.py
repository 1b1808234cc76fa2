"""Which of the user's functions and assignments give the same result again: each is compared over a few live steps.

A step has new data and new weights. A result that stays equal depends on neither, and need not be computed again; nor
need what gives the same tensors several times within a step.
"""

from __future__ import annotations

import sys

from .. import call_sites
from . import statements

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from types import CodeType, FrameType
    from typing import Any, Callable

    from ..shapes import Row

STEPS = 4
MOST_CALLS = 64
"""Results of one place that are kept of a step."""

LEAST_NUMBERS = 16
"""A result with fewer numbers in it may be equal by chance, as a flag or a count is."""

MOST_ITEMS = 64
EXACT_NUMBERS = 4096
"""Numbers of a tensor that are held against each other one by one; of all others two sums are, one by position."""

MOST_NUMBERS, CHUNK = 1 << 24, 1 << 20
PRIME = 8191
"""The weights of the positions repeat after so many."""

Mark = object
"""What a result is held against another by: equal for equal results."""


class ResultComparison:
    """`functions` are the code objects to compare, `lines` places (code, line) whose assignments are compared; each
    with its share of the stack samples."""

    def __init__(self, functions: dict[CodeType, float], lines: dict[tuple[CodeType, int], float]) -> None:
        self._functions = functions
        self._assignments: dict[CodeType, list[statements.Assignment]] = {}
        self._shares = {(code, 0): share for code, share in functions.items()}
        for (code, line), share in lines.items():
            found = statements.assignment(code.co_filename, line)
            if found is not None:
                self._shares[code, found.first] = self._shares.get((code, found.first), 0.0) + share
                if found not in self._assignments.setdefault(code, []):
                    self._assignments[code].append(found)
        self._steps: list[dict[tuple[CodeType, int], list[Mark]]] = []
        self._sizes: dict[tuple[CodeType, int], int] = {}
        self._pending: dict[int, statements.Assignment] = {}
        self._is_on = False
        if self._functions or self._assignments:
            self._begin()

    def on_step(self) -> bool:
        """An optimizer step has ended; whether it was the last one. The first one was under way already."""
        if not self._is_on or len(self._steps) >= STEPS + 1:
            return True
        self._steps.append({})
        return len(self._steps) >= STEPS + 1

    def table(self) -> Row | None:
        """The Recording's `lines.results`; None when fewer than three whole steps were seen."""
        self._end()
        whole = self._steps[:-1]  # the last one has begun and not ended
        if len(whole) < 3:
            return None
        keys = {key for step in whole for key in step}
        return {"steps": len(whole), "rows": [self._row(key, whole) for key in keys]}

    def _row(self, key: tuple[CodeType, int], steps: Sequence[dict[tuple[CodeType, int], list[Mark]]]) -> Row:
        code, line = key
        calls = [step.get(key, []) for step in steps]
        again = sum(1 for marks in zip(*calls) if _are_equal(marks))
        return {
            "file": code.co_filename,
            "line": line or code.co_firstlineno,
            "function": code.co_name,
            "kind": "line" if line else "function",
            "calls": sum(map(len, calls)) / len(calls),
            "again": again if len({len(each) for each in calls}) == 1 else 0,
            "distinct": sum(_distinct(marks) for marks in calls) / len(calls),
            "bytes": self._sizes.get(key, 0),
            "share": self._shares[key],
        }

    def _begin(self) -> None:
        if sys.gettrace() is not None:  # a debugger, a coverage tool
            return
        self._is_on = True
        frame: FrameType | None = sys._getframe(1)
        while frame is not None:
            if frame.f_code in self._assignments:
                frame.f_trace = self._on_event
            frame = frame.f_back
        sys.settrace(self._on_call)

    def _end(self) -> None:
        if not self._is_on:
            return
        self._is_on = False
        sys.settrace(None)
        frame: FrameType | None = sys._getframe(1)
        while frame is not None:
            if call_sites.is_user(frame.f_code.co_filename):
                frame.f_trace = None
            frame = frame.f_back

    def _on_call(self, frame: FrameType, event: str, _: object) -> Callable[..., Any] | None:
        code = frame.f_code
        is_hot = event == "call" and (code in self._functions or code in self._assignments)
        return self._on_event if is_hot else None

    def _on_event(self, frame: FrameType, event: str, value: object) -> Callable[..., Any] | None:
        if not self._is_on:
            return None
        pending = self._pending.get(id(frame))
        if pending is not None and not (event == "line" and pending.holds(frame.f_lineno)):
            del self._pending[id(frame)]
            if event in ("line", "return"):
                self._note((frame.f_code, pending.first), pending.values(frame))
        if event == "line":
            for one in self._assignments.get(frame.f_code, ()):
                if one.holds(frame.f_lineno):
                    self._pending[id(frame)] = one
        elif event == "return" and frame.f_code in self._functions:
            self._note((frame.f_code, 0), value)
        return self._on_event

    def _note(self, key: tuple[CodeType, int], value: object) -> None:
        if not self._steps:
            return
        marks = self._steps[-1].setdefault(key, [])
        if len(marks) < MOST_CALLS:
            try:
                mark, numbers, size = marked(value)
            except Exception:  # a tensor that shows no numbers, as inside vmap
                mark, numbers, size = None, 0, 0
            marks.append(mark if numbers >= LEAST_NUMBERS else None)
            self._sizes[key] = max(size, self._sizes.get(key, 0))


def _are_equal(marks: Sequence[Mark]) -> bool:
    return marks[0] is not None and all(mark == marks[0] for mark in marks)


def _distinct(marks: Sequence[Mark]) -> int:
    """How many different results there are; each unknown one is its own."""
    return len({mark for mark in marks if mark is not None}) + sum(mark is None for mark in marks)


def marked(value: Any) -> tuple[Mark, int, int]:
    """(mark, numbers, bytes) of a result: tensors, arrays, and containers of them; no mark for anything else.

    Nothing is compared while a graph is recorded: the values alone are looked at.
    """
    if isinstance(value, (list, tuple, dict)):
        if len(value) > MOST_ITEMS:
            return None, 0, 0
        items = list(value.values()) if isinstance(value, dict) else list(value)
        marks = [marked(item) for item in items if item is not None]  # what a model's output leaves out
        if any(mark is None for mark, _, _ in marks):
            return None, 0, 0
        return (len(value), *(m for m, _, _ in marks)), sum(n for _, n, _ in marks), sum(b for _, _, b in marks)
    if isinstance(value, (bool, int, float, str, bytes)):
        return (type(value).__name__, value), 0 if isinstance(value, (str, bytes)) else 1, 8
    tensor = _as_tensor(value)
    return _of_tensor(tensor) if tensor is not None else (None, 0, 0)


def needs_grad(value: Any) -> bool:
    """Whether autograd tracks it, or anything in it."""
    if isinstance(value, dict):
        return any(map(needs_grad, value.values()))
    if isinstance(value, (list, tuple)):
        return any(map(needs_grad, value[:MOST_ITEMS]))
    return bool(getattr(value, "requires_grad", False))


def _as_tensor(value: Any) -> Any:
    torch, numpy = sys.modules["torch"], sys.modules.get("numpy")
    if isinstance(value, torch.Tensor):
        return value.detach()
    if numpy is not None and isinstance(value, numpy.ndarray) and value.dtype.kind in "fiub":
        return torch.from_numpy(numpy.ascontiguousarray(value))
    return None


def _of_tensor(tensor: Any) -> tuple[Mark, int, int]:
    torch = sys.modules["torch"]
    if tensor.layout is not torch.strided or tensor.is_complex() or tensor.device.type == "meta":
        return None, 0, 0
    numbers = int(tensor.numel())
    if numbers > MOST_NUMBERS:
        return None, 0, 0
    with torch.no_grad():
        flat = tensor.reshape(-1)
        every = max(1, numbers // EXACT_NUMBERS)
        some = flat[::every][:EXACT_NUMBERS].to("cpu", torch.float64)
        total = by_place = 0.0
        for start in range(0, numbers, CHUNK):  # whole, a copy in float64 would be large
            part = flat[start : start + CHUNK].to(torch.float64)
            places = torch.arange(start, start + len(part), device=part.device).remainder_(PRIME).to(torch.float64)
            total, by_place = total + float(part.sum()), by_place + float(torch.dot(part, places))
        is_one = numbers > 1 and bool((some == some[0]).all()) and bool((flat == flat[0]).all())
    mark = (str(tensor.dtype), tuple(tensor.shape), some.numpy().tobytes(), total, by_place)
    # A uniform result tells no more than a single number: early in training an argmax may be the same for every row.
    return hash(mark), 1 if is_one else numbers, numbers * tensor.element_size()
