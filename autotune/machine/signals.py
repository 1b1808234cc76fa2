"""Ends on a signal (of a scheduler, or of a terminal that closes) with time to clean up."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import NoReturn

_ENDING = (signal.SIGTERM, signal.SIGHUP)

_interrupts: list[int] = []
"""Ctrl-C since the outermost `terminate_on_signal` began."""


@contextmanager
def terminate_on_signal() -> Iterator[None]:
    """Inside, SIGTERM and SIGHUP raise SystemExit(128 + number), so that whatever must be undone is; then they are
    deaf, as the cleaning may not be cut short. A signal that somebody handles or ignores already (nohup) stays theirs,
    and so do all outside the main thread. Ctrl-C raises KeyboardInterrupt as ever, and `check_interrupted` knows of it.
    """
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
    is_outermost = signal.getsignal(signal.SIGINT) is signal.default_int_handler
    if is_outermost:
        signal.signal(signal.SIGINT, _interrupt)
    try:
        yield
    finally:
        for number in ours:
            signal.signal(number, signal.SIG_DFL)
        if is_outermost:
            signal.signal(signal.SIGINT, signal.default_int_handler)
            _interrupts.clear()


def check_interrupted() -> None:
    """Raises KeyboardInterrupt in the main thread where one was lost: Python drops what is raised in a finaliser or a
    weak reference's callback, and a handler may run in one."""
    if _interrupts and threading.current_thread() is threading.main_thread():
        raise KeyboardInterrupt


def _interrupt(number: int, frame: FrameType | None) -> NoReturn:
    _interrupts.append(number)
    raise KeyboardInterrupt
