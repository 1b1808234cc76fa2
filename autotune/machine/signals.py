"""Being told to end by a signal, as by a scheduler or a terminal that goes away, with time to clean up."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import NoReturn

_ENDING = (signal.SIGTERM, signal.SIGHUP)


@contextmanager
def cleaned_up() -> Iterator[None]:
    """Inside, SIGTERM and SIGHUP raise SystemExit(128 + number), so that whatever must be undone is; then they are
    deaf, as the cleaning may not be cut short. A signal that somebody handles or ignores already (nohup) stays theirs,
    and so do all outside the main thread."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    ours = [number for number in _ENDING if signal.getsignal(number) is signal.SIG_DFL]

    def end(number: int, frame: FrameType | None) -> NoReturn:
        for one in ours:
            signal.signal(one, signal.SIG_IGN)
        raise SystemExit(128 + number)

    for number in ours:
        signal.signal(number, end)
    try:
        yield
    finally:
        for number in ours:
            signal.signal(number, signal.SIG_DFL)
