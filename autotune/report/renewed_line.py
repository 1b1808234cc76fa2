"""One line of a terminal that is written again in its own place."""

from __future__ import annotations

import os
from typing import TextIO

WIDTH = 80
"""Columns of a terminal that does not say how many it has."""


class RenewedLine:
    """The line on `stream`; nothing where that is no terminal."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._written = 0

    def show(self, text: str) -> None:
        """`text`, cut to the terminal, in the place of the one before; "" takes the line away."""
        line = text[: self._columns() - 1]
        if not self._stream.isatty() or not (line or self._written):
            return
        end = "" if line else "\r"
        self._stream.write(f"\r{line}{' ' * (self._written - len(line))}{end}")
        self._stream.flush()
        self._written = len(line)

    def _columns(self) -> int:
        try:
            return os.get_terminal_size(self._stream.fileno()).columns or WIDTH
        except (OSError, ValueError):
            return WIDTH
