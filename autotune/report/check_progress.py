"""How far `check` is with reading: a line on stderr that renews itself, once it takes longer."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable
from types import TracebackType
from typing import TextIO

from autotune.outlet import clean

AFTER_S = 2.0
"""Seconds without a line: most projects are read by then."""

RENEWED_S = 0.1
"""Seconds between two lines, at least."""

BAR = 24
"""Characters of the bar."""

WIDTH = 80
"""Columns of a terminal that does not say how many it has."""


class CheckProgress:
    """Shows the files that are read from AFTER_S seconds on until the end; nothing where stderr is no terminal.

    Use it as a context manager. `stream` is stderr unless given; `clock` counts seconds.
    """

    def __init__(self, *, stream: TextIO | None = None, clock: Callable[[], float] = time.monotonic) -> None:
        self._stream, self._clock = stream or sys.stderr, clock
        self._next = clock() + AFTER_S
        self._written = 0

    def __enter__(self) -> CheckProgress:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._write("")

    def update(self, file: str, done: int, total: int) -> None:
        """`file` is being read, and `done` of `total` files are."""
        now = self._clock()
        if now < self._next or not self._stream.isatty():
            return
        self._next = now + RENEWED_S
        full = BAR * done // max(total, 1)
        self._write(f"[{'#' * full}{' ' * (BAR - full)}] {done} of {total}: {clean(file)}"[: self._columns() - 1])

    def _columns(self) -> int:
        try:
            return os.get_terminal_size(self._stream.fileno()).columns or WIDTH
        except (OSError, ValueError):
            return WIDTH

    def _write(self, line: str) -> None:
        """The line in the place of the one before."""
        if line or self._written:
            end = "" if line else "\r"
            self._stream.write(f"\r{line}{' ' * (self._written - len(line))}{end}")
            self._stream.flush()
        self._written = len(line)
