"""What autotune works on while nothing runs: a line on stderr with the seconds so far, once it takes longer."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Event, Thread
from time import monotonic
from typing import TextIO

from autotune.outlet import clean
from autotune.report.renewed_line import RenewedLine
from autotune.report.units import duration

AFTER_S = 2.0
"""Seconds without a line: most of it is done by then."""

RENEWED_S = 1.0


@contextmanager
def waiting(
    doing: str,
    *,
    quiet: bool = False,
    stream: TextIO | None = None,
    after_s: float = AFTER_S,
    renewed_s: float = RENEWED_S,
) -> Iterator[None]:
    """Shows "reading trace.json.gz: 12 s" from `after_s` seconds on until the end; nothing with `quiet`, or where
    stderr is no terminal. `stream` is stderr unless given.
    """
    if quiet:
        yield
        return
    shown, done, started = RenewedLine(stream or sys.stderr), Event(), monotonic()

    def tell() -> None:
        pause = after_s
        while not done.wait(pause):
            shown.show(clean(f"autotune: {doing}: {duration(monotonic() - started)}"))
            pause = renewed_s

    teller = Thread(target=tell, name="autotune-waiting", daemon=True)
    teller.start()
    try:
        yield
    finally:
        done.set()
        teller.join()
        shown.show("")
