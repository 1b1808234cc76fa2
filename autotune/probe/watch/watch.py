"""One watched process, from the import of torch to its end: when windows are measured, and what is said of them."""

from __future__ import annotations

import atexit
import os
import sys
import time
import traceback

from .. import clock, describe, ending
from ..ranks import Ranks
from . import drift, folder, levels, state
from .levels import Blocks, Level, Samples
from .settings import FOLDER, WatchSettings, of_environment
from .step_clock import StepClock
from .terminal import write_line

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from ..shapes import Row
    from .watched_session import WatchedSession

MOST_STEPS = 200
"""Of a window: steps of a millisecond would otherwise make thousands of events."""

LONG_STEP_S, FEW_STEPS = 3.0, 8
"""Steps of such a length are measured fewer at a time."""

PAUSE, GROWTH = 10, 1.5
"""A window because the step time moved comes ten times its own length after the one before, and each later one half as
long again: a run whose steps vary for ever has some twenty of them."""

MEMORY_EVERY_S = 5.0
"""With CUDA asking takes some tenths of a millisecond."""

MOST_WINDOWS = 100


class Watch:
    """The watch of this process. What fails in it ends it, with a line on stderr, and never the run."""

    def __init__(self, settings: WatchSettings, nth: int = 1) -> None:
        self.settings = settings
        self.folder = settings.folder or folder.new(os.getcwd(), nth)
        self._owner = os.getpid()
        self._handled = 0
        self._session: WatchedSession | None = None
        self.failure: str | None = None
        self._clear()
        self.clock = StepClock(self._look)

    def _clear(self) -> None:
        self.blocks = Blocks()
        self.first_level: Level | None = None
        self.level: Level | None = None
        self.windows: list[Row] = []
        self.drift: list[Row] = []
        self.memory = Samples()
        self._memory_due = 0
        self._on_cuda = False
        self._moved_from: Level | None = None
        self._num_moved = 0
        self._next_moved = 0
        self._next_planned = self.settings.next_at(0)
        self._block_ends = self.settings.warmup
        self._write_due = 0
        self._reason = ""
        self._window_at = 0
        self._ranks: Ranks | None = None
        self._about: Row = {}
        self._is_over = False
        self._shown = 0
        self._has_folder = False
        self._has_told = False

    def start(self) -> None:
        """Count steps; hear of forks, of the end, and of our own mistakes."""
        self._shown = id(_last_shown())
        self.clock.start()
        ending.survive(self._failed)
        os.register_at_fork(after_in_child=self._in_child)
        atexit.register(self._at_exit)
        self._has_told = os.environ.setdefault(FOLDER, self.folder) == self.folder and not self.settings.folder

    # Between windows

    def _look(self, now: int) -> None:
        """A step ended at which there is something to do."""
        steps, ends = self.clock.steps, self.clock.ends
        self._shown = id(_last_shown())
        if not self._about:
            self._begin()
        if self.clock.session is None:
            if steps >= self._block_ends:
                self._close_block(steps, ends)
            if steps >= self._next_planned or self._has_moved(steps):
                self._open_window(steps)
        self._note_memory(now)
        if now >= self._write_due:
            self._write("running")
        measuring = self.clock.session is not None
        self.clock.look_at = sys.maxsize if measuring else min(self._block_ends, self._next_planned)
        self.clock.look_due = self._write_due

    def _begin(self) -> None:
        """The first step: only now is it known that this process trains."""
        self._about = {**state.identity(), "script": state.script(), "began_at": time.time()}
        try:
            folder.make(self.folder)
            self._has_folder = True
        except OSError as error:
            self._say(f"the state of this run cannot be written: {error.strerror}: {self.folder}")
        self._ranks = Ranks(self.folder) if self._has_folder else None
        process = sys.modules.get("multiprocessing.process")
        if process is not None and process.parent_process() is not None:
            # Such a process ends without atexit.
            from multiprocessing.util import Finalize

            Finalize(None, self._at_exit, exitpriority=0)

    def _close_block(self, steps: int, ends: list[int]) -> None:
        """The block is full: its level. What comes next begins at this step."""
        if len(ends) > self.settings.block:
            self.level = levels.level(steps, [after - before for before, after in zip(ends, ends[1:])])
            self.blocks.add(self.level)
        del ends[:-1]
        self._block_ends = steps + self.settings.block

    def _has_moved(self, steps: int) -> bool:
        if self._moved_from is None or steps < self._next_moved:
            return False
        newest = self.blocks.newest[-2:]
        return levels.has_moved(self._moved_from, [block for block in newest if block.step > self._window_at])

    def _note_memory(self, now: int) -> None:
        if self.first_level is None or now < self._memory_due:
            return
        self._memory_due = now + int(MEMORY_EVERY_S * 1e9) if self._on_cuda else 0
        used = describe.used_bytes(self._on_cuda)
        if used is not None:
            self.memory.add(self.clock.steps, used)

    # A window

    def _open_window(self, steps: int) -> None:
        level = self.level or Level(steps, 0.0, 0.0)
        step_s = level.mean / 1e9
        least = FEW_STEPS if step_s > LONG_STEP_S else self.settings.least_steps
        wanted = max(least, min(MOST_STEPS, int(self.settings.least_s / max(step_s, 1e-6))))
        self._reason = "planned" if steps >= self._next_planned else "moved"
        self._window_at = steps
        self.first_level = self.first_level or level
        self._moved_from = level
        if self._reason == "moved":
            self._next_moved = steps + int(PAUSE * wanted * GROWTH**self._num_moved)
            self._num_moved += 1
        if self._session is None:
            from .watched_session import WatchedSession  # all of the probe: workers that import torch need none of it

            self._session = WatchedSession(self.folder, self._on_window_over)
        self._session.attach(wanted, step_s)
        self.clock.measure(self._session)

    def _on_window_over(self) -> None:
        self.clock.measured()
        steps = self.clock.steps
        self._block_ends, self._next_planned = steps + self.settings.block, self.settings.next_at(steps)
        self.clock.look_at = min(self._block_ends, self._next_planned)
        del self.clock.ends[:-1]
        if self._session is not None and self._keep(self._session):
            self._write("running")
            self._say(state.line(self.windows[-1], self._row("running")))

    def _keep(self, session: WatchedSession) -> bool:
        """The window that is over becomes one of this run's; whether a step of it was measured."""
        result = session.result()
        if result is None:
            return False
        self._memory_due, self._on_cuda = 0, session.trains_on_cuda()
        self._note_memory(clock.now())
        window = {
            "step": self._window_at,
            "reason": self._reason,
            **result,
            "memory_bytes": self.memory.newest[1] if self.memory.newest is not None else None,
        }
        self.windows.append(window)
        del self.windows[1 : -MOST_WINDOWS + 1]
        self._find_drift()
        return True

    def _find_drift(self) -> None:
        """What has drifted at the end of the newest window; what was said before keeps the step at which it was."""
        first, now = self.windows[0], self.windows[-1]
        start = self.first_level
        found = [
            drift.of_step(first, now, start, self.blocks) if start is not None else None,
            drift.of_memory(self.memory.all()),
        ]
        said = {_of_what(one): one["said_at_step"] for one in self.drift}
        self.drift = [{**one, "said_at_step": said.get(_of_what(one), one["said_at_step"])} for one in found if one]

    # What is written and said

    @property
    def _rank(self) -> int:
        told = os.environ.get("RANK", "")
        return self._ranks.rank if self._ranks is not None else int(told) if told.isdecimal() else 0

    def _row(self, how: str, error: str | None = None) -> Row:
        ranks = self._ranks
        return {
            "schema": 1,
            "state": how,
            "error": error,
            **self._about,
            "rank": self._rank,
            "world_size": ranks.world_size if ranks is not None else None,
            "seen_at": time.time(),
            "stepped_at": time.time() - (clock.now() - self.clock.ends[-1]) / 1e9 if self.clock.ends else None,
            "steps": self.clock.steps,
            "step_ms": self.level.mean / 1e6 if self.level is not None else None,
            "first_step_ms": self.first_level.mean / 1e6 if self.first_level is not None else None,
            "memory_bytes": self.memory.newest[1] if self.memory.newest is not None else None,
            "first_memory_bytes": self.memory.kept[0][1] if self.memory.kept else None,
            "is_measuring": self.clock.session is not None,
            "windows": self.windows,
            "drift": self.drift,
            "failure": self.failure,
        }

    def _write(self, how: str, error: str | None = None) -> None:
        self._write_due = clock.now() + int(self.settings.write_s * 1e9)
        row = self._row(how, error)
        # The disk is full, a folder is gone: the run goes on.
        try:
            if self._has_folder:
                state.write(self.folder, row)
        except OSError as failed:
            self._has_folder = False
            self._say(f"the state of this run is no longer written: {failed.strerror}: {failed.filename}")
        try:
            if self.settings.prometheus:
                state.write_prometheus(self.settings.prometheus, row, self.folder)
        except OSError as failed:
            self.settings.prometheus = None
            self._say(f"nothing is written for Prometheus: {failed.strerror}: {failed.filename}")

    def _say(self, text: str) -> None:
        """One line on stderr, of the first rank alone."""
        if not self.settings.prints or self._rank:
            return
        try:
            write_line(f"autotune: {text}")
        except Exception:  # closed, or a full pipe: nobody reads it
            return

    def summary(self) -> dict[str, float]:
        """The flat dictionary; empty before the first step."""
        return state.summary(self._row("running")) if self._about else {}

    # The end

    def finish(self, error: BaseException | None = None) -> None:
        """The process, or what was to be watched of it, ends by itself: say how it went."""
        error = _failure(error)
        if self._is_over or os.getpid() != self._owner:
            return
        self._is_over = True
        self.clock.rest()
        if not self._about:
            if _has_trained():
                self._say("nothing was watched: no optimizer of torch made a step (docs/watch.md)")
            return
        try:
            self._end_window()
            if len(self.windows) > 1:
                self._find_drift()
            self._write("raised" if error is not None else "ended", type(error).__name__ if error is not None else None)
            for text in state.closing_lines(self._row("ended"), self._shown_folder(), self.settings.at[0]):
                self._say(text)
        except Exception as failed:
            self._failed(failed)

    def _end_window(self) -> None:
        """A window that is being measured ends here, with the steps that it has, unless they are too few."""
        session, self._session = self._session, None
        if session is None:
            return
        is_enough = session.is_attached and session.num_measured >= self.settings.least_steps
        if is_enough:
            session.on_window_end()
        session.detach()
        if is_enough:
            self._keep(session)
        session.abandon()

    def _at_exit(self) -> None:
        """What was shown before the last step did not end the run: a notebook goes on. In the main process a SystemExit
        leaves no trace; in one of multiprocessing it is on its way."""
        handled, shown = sys.exc_info()[1], _last_shown()
        if handled is not None and id(handled) != self._handled:
            self.finish(handled)
        else:
            self.finish(shown if id(shown) != self._shown else None)

    def _shown_folder(self) -> str:
        """The run folder as it is typed from here; "" where nothing was written."""
        if not self._has_folder:
            return ""
        near = os.path.relpath(self.folder)
        return self.folder if near.startswith("..") else near

    def stop(self, error: BaseException | None = None) -> None:
        """End the watch before the process ends; `error` is what ended what was watched."""
        self.finish(error)
        self._is_over = True
        self.clock.stop()
        atexit.unregister(self._at_exit)
        if self._has_told:
            os.environ.pop(FOLDER, None)

    def _in_child(self) -> None:
        """A forked child: a worker, which makes no step, or a rank that trains and is watched for itself."""
        try:
            if self._session is not None:
                self._session.abandon()
            self._session = None
            self._owner = os.getpid()
            self._handled = id(sys.exc_info()[1])  # of the parent, for as long as this process lives
            self._clear()
            self.clock.clear()
        except Exception as error:
            self._failed(error)

    def _failed(self, error: Exception) -> None:
        """A mistake of ours: the watch is over, the run goes on."""
        self.failure = f"{type(error).__name__}: {error}"
        self.clock.rest()
        try:
            if self._session is not None:
                if os.getpid() == self._owner:
                    self._session.detach()
                self._session.abandon()
        finally:
            self._say(f"internal error, this run is no longer watched: {self.failure}")
            self._write_failure()
            if os.environ.get("AUTOTUNE_WATCH") == "debug":
                traceback.print_exception(type(error), error, error.__traceback__)

    def _write_failure(self) -> None:
        try:
            if self._about:
                self._write("running")
        except Exception:  # whatever it was may be what failed
            return


def _last_shown() -> BaseException | None:
    """The exception whose traceback was printed last: at the end of a script, or in a shell, which goes on."""
    return getattr(sys, "last_value", None)


def _has_trained() -> bool:
    """Whether this thread made an autograd graph: a launcher that imports torch made none."""
    from .. import kept_graphs

    return kept_graphs.sequence_number() > 0


def _failure(error: BaseException | None) -> BaseException | None:
    """`error` as the failure that it is: a SystemExit is one by its code, and named by what was handled at it."""
    if not isinstance(error, SystemExit):
        return error
    return None if error.code in (None, 0) else error.__context__ or error


def _of_what(row: Row) -> tuple[str, str]:
    """What drifted, and the phase that did most of it."""
    return row["what"], row["phases"][0]["phase"] if row["phases"] else ""


_watches: list[Watch] = []
_num_begun = [0]


def begin(**given: Any) -> Watch:
    """The watch of this process, begun with the settings of the environment unless it is there already."""
    if not _watches:
        _num_begun[0] += 1
        watch = Watch(of_environment(**given), _num_begun[0])
        _watches.append(watch)
        watch.start()
    return _watches[0]


def adopt(watch: Watch) -> None:
    """Another door has made it: this process is watched by it."""
    _watches.append(watch)


def forget(watch: Watch) -> None:
    """It is no longer watched by it; whoever made it ends it."""
    if watch in _watches:
        _watches.remove(watch)


def current() -> Watch | None:
    """The watch of this process, None without one."""
    return _watches[0] if _watches else None


def end(error: BaseException | None = None) -> None:
    """End it, if there is one; `error` is what ended what was watched."""
    while _watches:
        _watches.pop().stop(error)
