"""Processes that take turns: one goes on while the others are stopped, a twentieth of a second each, there and back.

A shared host is faster or slower from one second to the next, for whoever runs then; in turns this small it is so for
all of them alike. Who is stopped does not see it: its time is what it had while it was let go on. Only a wait for
something else goes on meanwhile, so turns are long beside such waits.
"""

from __future__ import annotations

import bisect
import multiprocessing
import os
import signal
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from multiprocessing.connection import Connection

TURN_S = 0.05
"""Long beside the millisecond in which caches are warm again."""

WAITS = 30
"""Waits that a turn is long at least."""

Steps = Iterator[float]
"""Yields when a step has ended (time.monotonic); the first one when all is warm."""


@dataclass
class Child:
    """A forked process of its own group that makes steps, stopped unless it has its turn."""

    pid: int
    told: Connection
    """Where it tells that it is warm, and then when its steps ended."""

    went: list[float] = field(default_factory=list)
    stopped: list[float] = field(default_factory=list)

    def go(self) -> None:
        self.went.append(time.monotonic())
        os.killpg(self.pid, signal.SIGCONT)

    def stop(self) -> None:
        os.killpg(self.pid, signal.SIGSTOP)
        self.stopped.append(time.monotonic())

    def own_s(self, moment: float) -> float:
        """Seconds of its own until `moment`."""
        before = bisect.bisect_right(self.went, moment)
        whole = sum(stop - went for went, stop in zip(self.went, self.stopped[: max(0, before - 1)], strict=False))
        return whole + (moment - self.went[before - 1] if before else 0.0)


def step_ms(
    every: Sequence[Callable[[], Steps]], seconds: float, whole: Sequence[int], wait_s: float = 0.0
) -> list[float]:
    """Milliseconds per step of each that has had `seconds` of turns, over a multiple of `whole` steps.

    `wait_s` is the longest wait of one of them for something that is no CPU.
    """
    turn_s = max(TURN_S, WAITS * wait_s)
    with forked(every, whole) as children:
        for child in children:
            child.go()
            child.told.recv()
            child.stop()
        for number in range(max(2, round(seconds / turn_s))):
            for child in children[:: -1 if number % 2 else 1]:
                child.go()
                time.sleep(turn_s)
                child.stop()
        return [ended(child, steps) for child, steps in zip(children, whole, strict=True)]


def ended(child: Child, whole: int) -> float:
    """Lets it end; milliseconds per step."""
    os.kill(child.pid, signal.SIGTERM)
    child.go()
    ends = child.told.recv()
    count = (len(ends) - 1) // whole * whole
    return 1e3 * (child.own_s(ends[count]) - child.own_s(ends[0])) / count


@contextmanager
def forked(every: Sequence[Callable[[], Steps]], whole: Sequence[int]) -> Iterator[list[Child]]:
    """A child each; nothing of them is left."""
    children: list[Child] = []
    try:
        for steps, least in zip(every, whole, strict=True):
            children.append(fork(steps, least))
        yield children
    finally:
        for child in children:
            os.killpg(child.pid, signal.SIGKILL)
            os.waitpid(child.pid, 0)


def fork(steps: Callable[[], Steps], least: int) -> Child:
    reading, writing = multiprocessing.Pipe(duplex=False)
    pid = os.fork()
    if not pid:
        os.setpgid(0, 0)
        os.kill(os.getpid(), signal.SIGSTOP)
        work(steps(), least, writing)
        os._exit(0)
    os.waitpid(pid, os.WUNTRACED)
    writing.close()
    return Child(pid, reading)


def work(steps: Iterable[float], least: int, writing: Connection) -> None:
    """Makes steps until it is told to end and there are `least` of them; tells when each ended."""
    asked: list[int] = []
    signal.signal(signal.SIGTERM, lambda number, frame: asked.append(number))
    ends: list[float] = []
    for end in steps:
        if not ends:
            writing.send("warm")
        ends.append(end)
        if asked and len(ends) > least:
            break
    writing.send(ends)
