"""The progress display on stderr: one line that renews itself; plain lines where stderr is no terminal, or where the
script prints to it as well: the two would write into each other's lines."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable
from types import TracebackType
from typing import TYPE_CHECKING, Protocol, TextIO

from autotune.outlet import clean, plain
from autotune.report.units import duration, step_time

if TYPE_CHECKING:
    from rich.status import Status

PLAIN_INTERVAL_S = 10.0
"""Seconds between two plain lines, at least."""


class RunStatus(Protocol):
    """Where a run is: seconds since its start, optimizer steps made, its phase and the frame that it is in.

    `phase`: starting | warm-up | measuring | what-if. `where` is "" when the frame is unknown.
    """

    @property
    def elapsed_s(self) -> float: ...
    @property
    def steps(self) -> int: ...
    @property
    def phase(self) -> str: ...
    @property
    def where(self) -> str: ...


class ProgressDisplay:
    """Shows how far the run is, from the first update until `close`. With `quiet` it shows nothing. `is_shared`: the
    script prints to the same terminal.

    Use it as a context manager. `stream` is stderr unless given; `clock` counts seconds.
    """

    def __init__(
        self,
        *,
        quiet: bool = False,
        is_shared: bool = False,
        stream: TextIO | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._quiet, self._clock = quiet, clock
        self.is_shared = is_shared
        self._stream = stream or sys.stderr
        self._status: Status | None = None
        self._printed_at: float | None = None
        self._step_at: tuple[int, float] | None = None
        self._step_ms: float | None = None

    def __enter__(self) -> ProgressDisplay:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def update(self, status: RunStatus, head: str = "") -> None:
        """Show where the run is, after `head` where there are several."""
        if self._quiet:
            return
        self._time(status.steps)
        text = line(status, self._step_ms)
        self._show(clean(f"{head}: {text}" if head else text))

    def close(self) -> None:
        """Take the line away; what comes next begins a line. A second call does nothing more."""
        if self._status is not None:
            self._status.stop()
            self._status = None
        elif self._printed_at is not None:
            self._stream.write(left_edge(self._stream))
            self._stream.flush()

    def _time(self, step: int) -> None:
        """Learn the time of a step from when its number rises; the wait for the first one is start-up."""
        now = self._clock()
        if not step:
            self._step_at = self._step_ms = None
        elif self._step_at is None or step < self._step_at[0]:
            self._step_at, self._step_ms = (step, now), None
        elif step > self._step_at[0]:
            self._step_ms = (now - self._step_at[1]) * 1000 / (step - self._step_at[0])
            self._step_at = (step, now)

    def _show(self, text: str) -> None:
        if self._stream.isatty() and not self.is_shared:
            self._renew(text)
        elif self._printed_at is None or self._clock() - self._printed_at >= PLAIN_INTERVAL_S:
            self._printed_at = self._clock()
            print(left_edge(self._stream) + plain(f"autotune: {text}"), file=self._stream, flush=True)

    def _renew(self, text: str) -> None:
        from rich.console import Console
        from rich.status import Status
        from rich.text import Text

        shown = Text(text, no_wrap=True, overflow="ellipsis")
        if self._status is None:
            self._status = Status(shown, console=Console(file=self._stream))
            self._status.start()
        else:
            self._status.update(shown)


def left_edge(stream: TextIO) -> str:
    """What moves the cursor of a terminal to the left edge of an empty line, "" elsewhere. As many blanks as it has
    columns fill a line from its first column and stay in it; from any other column they go on in the next line."""
    try:
        return " " * os.get_terminal_size(stream.fileno()).columns + "\r" if stream.isatty() else ""
    except (OSError, ValueError):
        return ""


def line(status: RunStatus, step_ms: float | None) -> str:
    """ "waiting for the first step: 12 s, in train.py:30 load" or "step 7, 168 ms"."""
    frame = f", in {status.where}" if status.where else ""
    if status.phase == "starting":
        return f"waiting for the first step: {duration(status.elapsed_s)}{frame}"
    if status.phase == "what-if":
        return f"what-if probes after step {status.steps:,}{frame}"
    speed = f", {step_time(step_ms)}" if step_ms is not None else ""
    return f"step {status.steps:,}{speed}{' (warm-up)' if status.phase == 'warm-up' else ''}"
