"""How far `check` is with reading: a line on stderr that renews itself, once it takes longer."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from types import TracebackType
from typing import TextIO

from autotune.outlet import clean
from autotune.report.renewed_line import RenewedLine

AFTER_S = 2.0
"""Seconds without a line: most projects are read by then."""

RENEWED_S = 0.1
"""Seconds between two lines, at least."""

BAR = 24
"""Characters of the bar."""


class CheckProgress:
    """Shows the files that are read from AFTER_S seconds on until the end; nothing where stderr is no terminal.

    Use it as a context manager. `stream` is stderr unless given; `clock` counts seconds.
    """

    def __init__(self, *, stream: TextIO | None = None, clock: Callable[[], float] = time.monotonic) -> None:
        self._stream, self._clock = stream or sys.stderr, clock
        self._line = RenewedLine(self._stream)
        self._next = clock() + AFTER_S

    def __enter__(self) -> CheckProgress:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._line.show("")

    def update(self, file: str, done: int, total: int) -> None:
        """`file` is being read, and `done` of `total` files are."""
        now = self._clock()
        if now < self._next or not self._stream.isatty():
            return
        self._next = now + RENEWED_S
        full = BAR * done // max(total, 1)
        self._line.show(f"[{'#' * full}{' ' * (BAR - full)}] {done} of {total}: {clean(file)}")
