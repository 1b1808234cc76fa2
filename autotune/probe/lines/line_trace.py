"""Which of the user's lines runs when, for a step or two: every line event of the user's own frames."""

from __future__ import annotations

import sys
import time
from array import array

from .. import call_sites

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import CodeType, FrameType
    from typing import Any, Callable

MOST_CHANGES = 1_000_000
"""Line, call and return events of all recorded steps: with more, no table is made of them."""


class LineTrace:
    """`begin` to `end`. `times` and `lines` say since when which line is the innermost one of the user's; `counts` how
    often a line began. `is_cut` says that there were too many."""

    def __init__(self) -> None:
        self.times = array("q")
        self.lines = array("l")
        self.keys: list[tuple[CodeType, int]] = []
        self.counts: dict[int, int] = {}
        self.is_cut = False
        self._ids: dict[tuple[CodeType, int], int] = {}
        self._stack: list[tuple[int, int, int]] = []
        self._num_calls = 0
        self._is_on = False

    def begin(self) -> None:
        """Trace this thread from here on. Raises RuntimeError where a debugger or a coverage tool traces already."""
        if sys.gettrace() is not None:
            raise RuntimeError("another tool traces this thread")
        self._is_on = True
        frame: FrameType | None = sys._getframe(1)
        running = []
        while frame is not None:
            if call_sites.is_user(frame.f_code.co_filename):
                running.append(frame)
            frame = frame.f_back
        for each in reversed(running):
            self._push(each)
            each.f_trace = self._on_event
        self._change()
        sys.settrace(self._on_call)

    def end(self) -> None:
        """No trace any more; a suspended generator keeps a function that does nothing."""
        self._is_on = False
        sys.settrace(None)
        frame: FrameType | None = sys._getframe(1)
        while frame is not None:
            if call_sites.is_user(frame.f_code.co_filename):
                frame.f_trace = None
            frame = frame.f_back
        self._stack = []

    def call_numbers(self) -> tuple[int, ...]:
        """For each of the user's functions that run now, the innermost last: the number of its call, counted from 1."""
        return tuple(number for _, _, number in self._stack)

    def _push(self, frame: FrameType) -> None:
        self._num_calls += 1
        self._stack.append((id(frame), self._id(frame), self._num_calls))

    def _on_call(self, frame: FrameType, event: str, _: object) -> Callable[..., Any] | None:
        if event != "call" or not call_sites.is_user(frame.f_code.co_filename):
            return None
        self._push(frame)
        self._change()
        return self._on_event

    def _on_event(self, frame: FrameType, event: str, _: object) -> Callable[..., Any] | None:
        if self.is_cut or not self._is_on:
            return None
        mine = id(frame)
        while self._stack and self._stack[-1][0] != mine:
            self._stack.pop()  # left without a return event
        if event == "line":
            which = self._id(frame)
            self.counts[which] = self.counts.get(which, 0) + 1
            if self._stack:
                self._stack[-1] = (mine, which, self._stack[-1][2])
            else:
                self._push(frame)
            self._change()
        elif event == "return" and self._stack:
            self._stack.pop()
            self._change()
        return self._on_event

    def _id(self, frame: FrameType) -> int:
        key = (frame.f_code, call_sites.line_of(frame))
        known = self._ids.get(key)
        if known is None:
            known = self._ids[key] = len(self.keys)
            self.keys.append(key)
        return known

    def _change(self) -> None:
        if len(self.times) >= MOST_CHANGES:
            self.is_cut = True
            sys.settrace(None)
            return
        self.times.append(time.time_ns())
        self.lines.append(self._stack[-1][1] if self._stack else -1)
