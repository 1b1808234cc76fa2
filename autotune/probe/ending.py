"""How a probed process ends: by the probe after the window, or by itself."""

from __future__ import annotations

import functools
import os
import signal
import sys
import time
import traceback

from . import bug, clock

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import CodeType
    from typing import Any, Callable

    from .session import ProbeSession
    from .shapes import Function

LINGER_S = 15.0
"""So long a process that has finished waits for its parent to end it."""

BUG = 70
"""Exit code of a process whose probe failed: EX_SOFTWARE."""

MEMORY_WORDS = ("out of memory", "can't allocate memory", "cannot allocate memory", "defaultcpuallocator")


def is_out_of_memory(error: BaseException) -> bool:
    """Whether an exception says that memory ran out, on the host or on a device."""
    if isinstance(error, MemoryError) or type(error).__name__ == "OutOfMemoryError":
        return True
    return any(word in str(error).lower() for word in MEMORY_WORDS)


def ours(function: Function) -> Function:
    """`function` of the probe, called from within the user's code: its bug must not look like the script's.

    Where the process survives it, the function returns None.
    """

    @functools.wraps(function)
    def guarded(*args: Any, **kwargs: Any) -> Any:
        try:
            return function(*args, **kwargs)
        except Exception as error:
            judge(error)

    return guarded


def judge(error: Exception) -> None:
    """What becomes of an exception that is being handled in the probe: a bug of ours, or on its way to the script."""
    if _is_of_a_signal(error):
        raise error
    end_by_bug(error)


def _is_of_a_signal(error: Exception) -> bool:
    """Whether a signal's handler raised it: torch's does where a worker died, in whatever code the process is."""
    codes = {_code(signal.getsignal(number)) for number in signal.valid_signals()}
    return any(frame.f_code in codes for frame, _ in traceback.walk_tb(error.__traceback__))


def _code(handler: Any) -> CodeType | None:
    """What Python runs for a handler: a function, a method, a partial or an object that can be called."""
    handler = getattr(handler, "func", handler)
    called = handler if hasattr(handler, "__code__") else type(handler).__call__ if callable(handler) else None
    return getattr(called, "__code__", None)


def survive(told: Callable[[Exception], object]) -> None:
    """From now on a bug of the probe ends nothing: this process is the user's real run. `told` hears of it."""
    _told[:] = [told]


_told: list[Callable[[Exception], object]] = []


def end_by_bug(error: Exception) -> None:
    """End this process because the probe failed, with a note for the parent, unless it is to survive that."""
    if _told:
        _told[0](error)
        return
    try:
        bug.leave_note(error)
        sys.stderr.write("autotune: internal error; the job is stopped\n")
        traceback.print_exception(type(error), error, error.__traceback__)
        sys.stderr.flush()
    finally:
        os._exit(BUG)


def leave(session: ProbeSession) -> None:
    """End this process now: no handler, no `finally`, no save of the script's runs."""
    session.ended = True
    session.recorder.on = False
    session.plan.is_active = False
    session.sampler.stop()
    session.write("completed")
    _end_children()
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except (OSError, ValueError, AttributeError):  # closed, or a full pipe: nothing to save
            continue
    say_goodbye(session)
    # The parent ends the whole job in one go. If this process went first, a shell would begin its next stage, and the
    # collectives of other ranks would break before those have written.
    time.sleep(LINGER_S)
    os._exit(0)


def say_goodbye(session: ProbeSession) -> None:
    """Tell the parent that the probe is done in this process, and how many of the job on this machine will say so."""
    folder = session.request["run_dir"]
    unread = os.path.join(folder, f"leaving-{os.getpid()}")
    with open(unread, "w", encoding="ascii") as file:
        file.write(str(session.ranks.num_leaving()))
    os.replace(unread, os.path.join(folder, f"left-{os.getpid()}"))


def _end_children() -> None:
    multiprocessing = sys.modules.get("multiprocessing")
    if multiprocessing is None:
        return
    children = multiprocessing.active_children()
    for child in children:
        child.terminate()
    for child in children:
        child.join(timeout=1.0)


def at_exit(session: ProbeSession) -> None:
    """The script ended by itself: write what there is, if this process did any training."""
    error = getattr(sys, "last_value", None)
    session.plan.abandon()
    if not session.window.is_over:
        session.window.close(clock.now(), "error" if error is not None else "script_ended")
    if error is not None:
        session.write("out_of_memory" if is_out_of_memory(error) else "raised")
    elif session.window.step_ends:
        session.write("completed" if session.window.ended_by == "steps" else "ended_early")
    elif session.models:
        session.write("no_step")
