"""The work that one file may take, and the note that is left of a file that takes more or fails."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TypeVar

from msgspec import Struct

from autotune.errors import AutotuneError
from autotune.model.scanned import ScanNote

STEPS = 1_000_000
"""Steps of work for one file: a step is about a microsecond. A script of 3,000 lines takes 100,000."""

CPU_S = 2.0
"""CPU seconds for one reading of a file: the net below the steps, for work that nobody counted."""

_PACKAGE = Path(__file__).resolve().parents[2]

Result = TypeVar("Result")


class TooComplex(BaseException):
    """A file takes more work than any that a person wrote; the text says what was too much.

    No Exception: code that takes whatever a parser raises for a broken file must let it pass.
    """


class Work(Struct):
    """The steps that are left for one file."""

    left: int = STEPS

    def spend(self, steps: int = 1) -> None:
        """Raises TooComplex when no steps are left."""
        self.left -= steps
        if self.left < 0:
            raise TooComplex("more work than any hand-written file needs")


def attempt(name: str, make: Callable[[], Result], leave: Callable[[ScanNote], object]) -> Result | None:
    """What `make` gives for the file `name`; None when it takes too much or fails: then `leave` is told why."""
    try:
        with _cpu_limit():
            return make()
    except AutotuneError:
        raise
    except TooComplex as error:
        why = f"too complex: {error}"
    except RecursionError:
        why = "too complex: nested too deeply"
    except MemoryError:
        why = "too complex: not enough memory"
    except Exception as error:
        leave(ScanNote(name, f"not read: internal error ({_cause(error)})", is_error=True, is_bug=True))
        return None
    leave(ScanNote(name, f"not read: {why}", is_error=True))
    return None


@contextmanager
def _cpu_limit() -> Iterator[None]:
    """Raises TooComplex after CPU_S seconds of this process; the time of an inner one is not that of the outer one.

    Without a limit in another thread, which may set no handler, and on Windows, which has no such timer.
    """
    if threading.current_thread() is not threading.main_thread() or not hasattr(signal, "setitimer"):
        yield
        return
    handler = signal.signal(signal.SIGVTALRM, _raise)
    left, _ = signal.setitimer(signal.ITIMER_VIRTUAL, CPU_S)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, left)
        signal.signal(signal.SIGVTALRM, handler)


def _raise(*_: object) -> None:
    raise TooComplex(f"more than {CPU_S:g} s of work")


def _cause(error: Exception) -> str:
    """ "TypeError at autotune/scan/script/training_loops.py:120"."""
    import traceback  # only a bug needs it

    frames = traceback.extract_tb(error.__traceback__)
    own = [frame for frame in frames if Path(frame.filename).is_relative_to(_PACKAGE)]
    at = (own or frames)[-1]
    file = Path(at.filename)
    return f"{type(error).__name__} at {file.relative_to(_PACKAGE).as_posix() if own else file.name}:{at.lineno}"
