"""Time slicing: of several processes one runs while the others are paused, hundredths of a second each.

A shared machine gets faster and slower from one second to the next, and no counter shows it. Slices this short expose
all processes to the same changes. A process does not see its pauses: its own time, and the time of its steps, is the
time in which it ran. Only what it waits for goes on during a pause.
"""

from __future__ import annotations

import itertools
import math
import os
import signal
import subprocess
import threading
import time
from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import CancelledError, Future, ThreadPoolExecutor
from contextlib import contextmanager, suppress
from typing import Any, TypeVar

from autotune.model.verified import TimeSlicing
from autotune.verify.thresholds import ROUNDS_ON_CPU

_POLL_S = 0.02

T = TypeVar("T")


class PausedGroup:
    """A process group that is paused outside its slices, and the times (monotonic, s) of its slices."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._group: int | None = None
        self._went: list[float] = []
        self._stopped: list[float] = []
        self._surely_went: list[float] = []
        self._surely_stopped: list[float] = []
        self._is_given_up = False
        self._has_stepped = False

    @contextmanager
    def group(self, pid: int) -> Iterator[None]:
        """From the start of the group `pid` to its end; it runs at both."""
        with _guard(pid):
            with self._lock:
                self._group = pid
                self._went.append(time.monotonic())
                self._surely_went.append(self._went[-1])
            try:
                yield
            finally:
                with self._lock:
                    self._stop()
                    self._signal(signal.SIGCONT)
                    self._group = None

    def turn(self, seconds: float, place: int = 0) -> bool:
        """Let it run for so long, first on the `place`-th of its CPUs; False, at once, when there is no process."""
        with self._lock:
            if self._group is None:
                return False
            if not self._is_going():
                with _on_cpu(self._group, place):
                    self._went.append(time.monotonic())
                    self._signal(signal.SIGCONT)
                    self._surely_went.append(time.monotonic())
        time.sleep(seconds)
        self.stop()
        return True

    def stop(self) -> None:
        with self._lock:
            self._stop()

    def give_up(self) -> None:
        self._is_given_up = True

    def check(self, steps: int) -> None:
        """Called continually with the number of steps made. Raises CancelledError once it was given up."""
        self._has_stepped = self._has_stepped or steps > 0
        if self._is_given_up:
            raise CancelledError

    def has_stepped(self) -> bool:
        return self._has_stepped

    def in_turns_since(self) -> float:
        """When it was stopped for the first time; infinity before that."""
        return self._stopped[0] if self._stopped else math.inf

    def has_group(self) -> bool:
        return self._group is not None

    def has_begun(self) -> bool:
        return bool(self._went)

    def own_s(self, moment: float) -> float:
        """Seconds of its turns before `moment`."""
        return _spent(self._went, self._stopped, moment)

    def least_s(self, moment: float) -> float:
        """A lower bound of `own_s`: without the time between a signal and its effect."""
        return _spent(self._surely_went, self._surely_stopped, moment)

    def _is_going(self) -> bool:
        return len(self._went) > len(self._stopped)

    def _stop(self) -> None:
        if self._group is not None and self._is_going():
            self._surely_stopped.append(time.monotonic())
            self._signal(signal.SIGSTOP)
            self._stopped.append(time.monotonic())

    def _signal(self, number: signal.Signals) -> None:
        if self._group is not None:
            with suppress(ProcessLookupError, PermissionError):
                os.killpg(self._group, number)


def _spent(went: Sequence[float], stopped: Sequence[float], moment: float) -> float:
    begun = bisect_right(went, moment)
    ends = [*stopped, moment][:begun]
    return sum(max(0.0, min(end, moment) - start) for start, end in zip(went[:begun], ends, strict=False))


@contextmanager
def _on_cpu(pid: int, place: int) -> Iterator[None]:
    """A process that is resumed inside begins on that CPU, and may move to any of its own afterwards.

    The other guests of a host slow down single cores for a while: processes on different cores would not be slowed
    alike.
    """
    try:
        own = sorted(os.sched_getaffinity(pid))
        os.sched_setaffinity(pid, {own[place % len(own)]})
    except (AttributeError, OSError):
        yield
        return
    try:
        yield
    finally:
        with suppress(OSError):
            os.sched_setaffinity(pid, own)


@contextmanager
def _guard(group: int) -> Iterator[None]:
    """Kills the group if this process is killed: nothing else would resume it."""
    words = ["/bin/sh", "-c", 'read -r line || kill -s KILL -- "-$0"', str(group)]
    with subprocess.Popen(words, stdin=subprocess.PIPE, stderr=subprocess.DEVNULL, start_new_session=True) as guard:
        try:
            yield
        finally:
            guard.communicate(b"ended\n")


def alternate(works: Sequence[Callable[[PausedGroup], T]], turns: TimeSlicing) -> list[T]:
    """What each of `works` returns: each starts a process group, gives it to its PausedGroup, and keeps calling
    `check`.

    They run in threads. The first error, Ctrl-C included, gives all of them up and is raised once they have ended.
    """
    every = [PausedGroup() for _ in works]
    with ThreadPoolExecutor(len(works)) as pool:
        futures: list[Future[T]] = []
        try:
            for work, paused in zip(works, every, strict=True):
                futures.append(pool.submit(work, paused))
            _begin(every, futures, turns.together_s)
            _go_round(every, futures, turns.turn_s)
        finally:
            for paused in every:
                paused.give_up()
    return [future.result() for future in futures]


def _begin(every: Sequence[PausedGroup], futures: Sequence[Future[Any]], together_s: float) -> None:
    """All go on, until one of them makes steps or `together_s` are over."""
    while not all(paused.has_begun() or future.done() for paused, future in zip(every, futures, strict=True)):
        time.sleep(_POLL_S)
    end = time.monotonic() + together_s
    while time.monotonic() < end and not any(paused.has_stepped() for paused in every):
        _raise_first(futures)
        time.sleep(_POLL_S)
    for paused in every:
        paused.stop()


def _go_round(every: Sequence[PausedGroup], futures: Sequence[Future[Any]], turn_s: float) -> None:
    """Turns for all that make steps, once those that do not yet have caught up with them."""
    for number in itertools.count():
        if all(future.done() for future in futures):
            return
        behind = [paused for paused in every if paused.has_group() and not paused.has_stepped()]
        went = [paused.turn(turn_s, number // ROUNDS_ON_CPU) for paused in behind or every]
        if not any(went):
            time.sleep(_POLL_S)
        _raise_first(futures)


def _raise_first(futures: Sequence[Future[Any]]) -> None:
    for future in futures:
        if future.done():
            future.result()
