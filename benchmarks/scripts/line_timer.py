"""Clocks for the statements of a script, put into a copy of it by line_attribution.py; nothing of autotune runs.

Every statement is timed, without the time of the timed statements inside it. The backward pass is timed node by node:
a hook before each node says from which statement its operation came, and the time until the next node is that one's.
On CUDA the clocks are events in the device's queue: a statement's time is the device's, until it has done what the
statement queued.
"""

from __future__ import annotations

import json
import os
import sys
from collections import Counter
from collections.abc import Iterable, Iterator
from time import perf_counter_ns
from typing import Any

import torch
from torch.optim.optimizer import register_optimizer_step_post_hook

WARMUP, STEPS, OUT = int(os.environ["TIMER_WARMUP"]), int(os.environ["TIMER_STEPS"]), os.environ["TIMER_OUT"]

IS_CUDA = torch.cuda.is_available()

own_ns: Counter[int] = Counter()
_spans: list[tuple[int, Any, Any]] = []
"""(line, event, event), whose time is known when the device has come to them."""

_open: list[list[Any]] = []
_seen: dict[int, Any] = {}
_backward: list[int] = []
_steps = [0]


def clock() -> Any:
    """Now: nanoseconds, on CUDA an event."""
    if not IS_CUDA:
        return perf_counter_ns()
    event = torch.cuda.Event(enable_timing=True)
    event.record()
    return event


def spent(line: int, start: Any, end: Any) -> None:
    if IS_CUDA:
        _spans.append((line, start, end))
    else:
        own_ns[line] += end - start


def enter(line: int) -> None:
    """A statement begins: what the one around it has used up to now is its own."""
    now = clock()
    if _open:
        spent(_open[-1][0], _open[-1][1], now)
    _open.append([line, clock()])


def leave() -> None:
    """The innermost statement ends."""
    now = clock()
    line, start = _open.pop()
    spent(line, start, now)
    if _open:
        _open[-1][1] = clock()


def made(line: int, *values: Any) -> None:
    """The nodes behind `values` that are new were made by this statement."""
    spent(_open[-1][0], _open[-1][1], clock())
    for value in values:
        _made(line, value)
    _open[-1][1] = clock()  # looking for nodes is nobody's time


def _made(line: int, value: Any) -> None:
    if isinstance(value, dict):
        value = list(value.values())
    if isinstance(value, (list, tuple)):
        for item in value[:256]:
            _made(line, item)
        return
    node = getattr(value, "grad_fn", None)
    left = [node] if node is not None else []
    while left:
        node = left.pop()
        if id(node) in _seen or type(node).__name__ == "AccumulateGrad":
            continue
        _seen[id(node)] = node  # alive, so that no other one gets its id
        node.register_prehook(lambda _, line=line: _mark(line))
        left += [each for each, _ in node.next_functions if each is not None]


def _mark(line: int) -> None:
    """A node of the backward pass begins: the statement that calls backward lends its time to the node's."""
    now = clock()
    line_open = _open[-1]
    spent(_backward[-1] if _backward else line_open[0], line_open[1], now)
    _backward[:] = [line]
    line_open[1] = clock()


def timed(line: int, values: Iterable[Any]) -> Iterator[Any]:
    """The items of a for loop, the time to get each one the header's."""
    iterator = iter(values)
    while True:
        enter(line)
        try:
            item = next(iterator)
        except StopIteration:
            return
        finally:
            leave()
        yield item


def _after_step(*_: Any) -> None:
    _steps[0] += 1
    _seen.clear()
    if _steps[0] == WARMUP:
        own_ns.clear()
        _spans.clear()
        for each in _open:
            each[1] = clock()
    if _steps[0] == WARMUP + STEPS:
        if _open:
            spent(_open[-1][0], _open[-1][1], clock())
        if IS_CUDA:
            torch.cuda.synchronize()
        for line, start, end in _spans:
            own_ns[line] += round(1e6 * start.elapsed_time(end))
        with open(OUT, "w", encoding="utf-8") as file:
            json.dump({"own_ns": dict(own_ns)}, file)
        sys.stdout.flush()
        os._exit(0)


_backward_of_torch = torch.autograd.backward


def _timed_backward(*args: Any, **kwargs: Any) -> Any:
    try:
        return _backward_of_torch(*args, **kwargs)
    finally:
        if _backward:
            spent(_backward.pop(), _open[-1][1], clock())
            _open[-1][1] = clock()


torch.autograd.backward = _timed_backward
register_optimizer_step_post_hook(_after_step)
