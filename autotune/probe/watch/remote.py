"""One window in a process that was not started under watch.

`autotune diagnose --pid` has its interpreter run a few lines (autotune/attach/remote_window.py), which start a thread
of ours and nothing else. That thread loads the probe, puts the step clock on, waits for the window and takes everything
off again, after a time limit in any case: one deadline holds for all of it, and nothing is put on after it. What fails
is written to `attach.json` in the run folder, not to the script.
"""

from __future__ import annotations

import atexit
import json
import os
import sys
import threading
import time
import weakref

from .. import ending
from . import folder as folders
from .settings import WatchSettings
from .watch import Watch, adopt, current, forget
from .watched_session import WatchedSession

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import FrameType
    from typing import Any, Callable

    from ..shapes import Row

ANSWER = "attach.json"
AT = 2
"""Steps until the window begins: one of them is timed, to know how many it takes."""

FEWEST = 3
"""Steps with which a window counts whose time is up."""

LOOPS = ("torch/optim/optimizer.py", "wrapper")
"""Where torch goes through the hooks of an optimizer: the dictionary of all hooks must not change meanwhile."""

PAUSE_S, LONGEST_PAUSE_S = 0.001, 0.05

REMOVAL_S = 5.0
"""So long a moment is looked for in which the clock's hook, which does nothing by then, can be taken out of torch."""


class WindowWatch(Watch):
    """A watch of one window. `over` is set at its end."""

    def __init__(self, settings: WatchSettings) -> None:
        super().__init__(settings)
        self.over = threading.Event()
        self._session = WatchedSession(self.folder, self._on_window_over)  # here: the training thread loads nothing

    def begin(self, deadline: float) -> bool:
        """Count steps, and whether they can be counted before `deadline`. What cannot be taken back (a callback at
        forks) forgets us."""
        ending.survive(self._failed)
        os.register_at_fork(after_in_child=_of_weak(self))
        atexit.register(self._at_exit)
        return at_quiet_moment(self.clock.start, deadline)

    def _on_window_over(self) -> None:
        super()._on_window_over()
        self.clock.rest()  # one window, whatever steps come until it is taken off
        self.over.set()

    def _failed(self, error: Exception) -> None:
        with self.clock.edge:
            super()._failed(error)
        self.over.set()

    def _at_exit(self) -> None:
        with self.clock.edge:
            super()._at_exit()

    def _in_child(self) -> None:
        self.clock.clear()
        self.clock.off()  # no thread of ours is there to end a window
        super()._in_child()

    def stop(self, error: BaseException | None = None) -> None:
        """Take everything off; from a thread of ours. The training thread may be at the end of a step: what it has
        begun to put on there is waited for."""
        with self.clock.edge:
            self.settings.least_steps = FEWEST
            self.finish(error)
            self._is_over = True
            self.clock.off()
        at_quiet_moment(self.clock.stop, time.monotonic() + REMOVAL_S)
        atexit.unregister(self._at_exit)
        ending.survive(_ignore)


def _of_weak(watch: WindowWatch) -> Callable[[], None]:
    known = weakref.ref(watch)

    def in_child() -> None:
        found = known()
        if found is not None:
            found._in_child()

    return in_child


def _ignore(error: Exception) -> None:
    """Of a hook that was on its way when the window ended."""


def measure(asked: dict[str, Any]) -> None:
    """Measure one window. `asked`: "folder", "limit_s", "least_steps" and "least_s". Raises OSError where the folder
    cannot be written."""
    folder = asked["folder"]
    folders.make(folder)
    if not folders.is_only_ours(folder):
        raise PermissionError(f"others may write {folder}")
    answer(folder, "begun")
    try:
        said = _measured(asked)
        answer(folder, "refused" if said else "done", said)
    except Exception as error:
        answer(folder, "failed", f"{type(error).__name__}: {error}")


def _measured(asked: dict[str, Any]) -> str:
    """Measure one window; why there is none, "" where there is one."""
    deadline = time.monotonic() + asked["limit_s"]
    if not getattr(sys, "_is_gil_enabled", lambda: True)():
        return "this Python runs without the interpreter lock: hooks cannot be put on safely"
    if "torch" not in sys.modules:
        return "it has not imported torch"
    if current() is not None:
        return "autotune watches it already: autotune watch"
    settings = WatchSettings(
        at=(AT,), least_steps=asked["least_steps"], least_s=asked["least_s"], prints=False, folder=asked["folder"]
    )
    watch = WindowWatch(settings)
    adopt(watch)
    try:
        is_counting = watch.begin(deadline)
        if is_counting:
            watch.over.wait(max(0.0, deadline - time.monotonic()))
    finally:
        forget(watch)
        watch.stop()
    if not is_counting:
        return f"its optimizer was in a step for {asked['limit_s']:.0f} s: no hook can be added in one"
    if watch.failure is not None:
        return f"it failed: {watch.failure}"
    return "" if watch.windows else _why_none(watch, asked["limit_s"])


def _why_none(watch: WindowWatch, limit_s: float) -> str:
    if not watch.clock.steps:
        return f"no optimizer of torch made a step in {limit_s:.0f} s, as far as its hooks tell"
    return f"{watch.clock.steps} steps in {limit_s:.0f} s are too few for a window"


def at_quiet_moment(act: Callable[[], object], deadline: float) -> bool:
    """Call `act` while no thread goes through the hooks of an optimizer; False where none such comes before `deadline`
    (monotonic): with step(closure) nearly all of a training is in there.

    A thread that wakes up has just got the interpreter lock, and keeps it for the switch interval (5 ms): the look at
    all stacks and `act` take a tenth of a millisecond.
    """
    pause_s = PAUSE_S
    while time.monotonic() + pause_s < deadline:
        time.sleep(pause_s)
        pause_s = min(LONGEST_PAUSE_S, 1.2 * pause_s)
        if time.monotonic() < deadline and not any(map(_is_in_loop, sys._current_frames().values())):
            act()
            return True
    return False


def _is_in_loop(frame: FrameType | None) -> bool:
    while frame is not None:
        code = frame.f_code
        if code.co_name == LOOPS[1] and code.co_filename.replace(os.sep, "/").endswith(LOOPS[0]):
            return True
        frame = frame.f_back
    return False


def answer(folder: str, state: str, why: str = "") -> None:
    """What autotune waits for: "begun", "done", "refused" or "failed". Raises OSError where it cannot be written."""
    row: Row = {"state": state, "why": why, "pid": os.getpid()}
    part = os.path.join(folder, f"{ANSWER}~")
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_NOFOLLOW", 0)
    with open(os.open(part, flags, 0o644), "w", encoding="utf-8") as file:
        json.dump(row, file)
    os.replace(part, os.path.join(folder, ANSWER))
