"""Clocks for the statements of a script, put into a copy of it by line_attribution.py; nothing of autotune runs.

Every statement is timed, without the time of the timed statements inside it. The backward pass is timed node by node:
a hook before each node says from which statement its operation came, and the time until the next node is that one's.
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

own_ns: Counter[int] = Counter()
_open: list[list[int]] = []
_seen: dict[int, Any] = {}
_backward: list[int] = []
_steps = [0, 0]


def enter(line: int) -> None:
    """A statement begins: what the one around it has used up to now is its own."""
    now = perf_counter_ns()
    if _open:
        own_ns[_open[-1][0]] += now - _open[-1][1]
    _open.append([line, perf_counter_ns()])


def leave() -> None:
    """The innermost statement ends."""
    now = perf_counter_ns()
    line, start = _open.pop()
    own_ns[line] += now - start
    if _open:
        _open[-1][1] = perf_counter_ns()


def made(line: int, *values: Any) -> None:
    """The nodes behind `values` that are new were made by this statement."""
    own_ns[_open[-1][0]] += perf_counter_ns() - _open[-1][1]
    for value in values:
        _made(line, value)
    _open[-1][1] = perf_counter_ns()  # looking for nodes is nobody's time


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
    now = perf_counter_ns()
    line_open = _open[-1]
    own_ns[_backward[-1] if _backward else line_open[0]] += now - line_open[1]
    _backward[:] = [line]
    line_open[1] = perf_counter_ns()


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
        for each in _open:
            each[1] = perf_counter_ns()
        _steps[1] = perf_counter_ns()
    if _steps[0] == WARMUP + STEPS:
        total = perf_counter_ns() - _steps[1]
        if _open:
            own_ns[_open[-1][0]] += perf_counter_ns() - _open[-1][1]
        with open(OUT, "w", encoding="utf-8") as file:
            json.dump({"total_ns": total, "own_ns": dict(own_ns)}, file)
        sys.stdout.flush()
        os._exit(0)


_backward_of_torch = torch.autograd.backward


def _timed_backward(*args: Any, **kwargs: Any) -> Any:
    try:
        return _backward_of_torch(*args, **kwargs)
    finally:
        if _backward:
            now = perf_counter_ns()
            own_ns[_backward.pop()] += now - _open[-1][1]
            _open[-1][1] = perf_counter_ns()


torch.autograd.backward = _timed_backward
register_optimizer_step_post_hook(_after_step)
