"""The stack sampler: names what fills the time that no hook explains, watches the time limits, reports progress."""

from __future__ import annotations

import json
import os
import threading
import time

from . import call_sites, clock, ending, logging_functions

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import FrameType
    from typing import Any

    from .session import ProbeSession
    from .shapes import Row, Samples

INTERVAL_S, LONGEST_S = 0.02, 0.2
MOST_SHARE = 0.006
"""Of one CPU, what the samples may take: where one is dear, they come less often."""

PROGRESS_S = 0.5
PATIENCE_S = 5.0
SEPARATOR = " > "
WITH_PATH = ("other", "backward")
"""Phases whose samples keep the names of all functions: they tell whose the training loop is."""


class StackSampler:
    """A daemon thread from the import of torch to the end of the window. `spent_ns` is its own CPU time."""

    def __init__(self, session: ProbeSession) -> None:
        self._session = session
        self._stop = threading.Event()
        self._counts: Samples = {}
        self._thread: threading.Thread | None = None
        self._use = SampledUse()
        self._started = clock.now()
        self.spent_ns = 0

    def start(self) -> None:
        self._stop.clear()
        thread = self._thread = threading.Thread(target=self._run, name="autotune-sampler", daemon=True)
        thread.start()

    def stop(self) -> None:
        """End the thread, and wait: one that still runs when the interpreter shuts down can abort it."""
        self._stop.set()
        if self._thread is not None and self._thread is not threading.current_thread():
            self._thread.join(timeout=2.0)

    def reset(self) -> None:
        """Forget the samples: the window begins."""
        self._counts = {}
        self._use = SampledUse()

    def rows(self) -> list[Row]:
        """The samples as Sample fields, the most frequent first."""
        counts = dict(self._counts)  # the thread may still add to them
        return [{**row, **self._use.row(key)} for row, key in zip(rows_of(counts), ranked(counts))]

    @ending.ours
    def _run(self) -> None:
        due, cost_s = 0.0, 0.0
        # Not Event.wait: that costs ten times as much as a sleep.
        while not self._stop.is_set():
            time.sleep(pause(cost_s))
            if os.getpid() != self._session.recorder.pid:
                return
            is_due = time.monotonic() >= due
            due = time.monotonic() + PROGRESS_S if is_due else due
            self._look(is_due)
            self._check_limits()
            spent_ns, self.spent_ns = self.spent_ns, clock.thread_cpu()
            cost_s += 0.1 * ((self.spent_ns - spent_ns) / 1e9 - cost_s)

    def _look(self, is_due: bool) -> None:
        """One sample. The stack is let go at once: holding it would keep the script's local tensors alive."""
        stack = call_sites.stack_of(self._session.recorder.thread)
        if stack:
            self._take(stack)
            self._note_startup(stack)
        if is_due:
            self._progress(stack)

    def _take(self, stack: list[FrameType]) -> None:
        passed = self._use.passed(self.spent_ns)
        kind = self._session.recorder.phase()
        phase = "other" if kind == "closure" else kind  # the script's own code
        key = (phase, *describe(stack), *(path(stack) if phase in WITH_PATH else ("", "")))
        self._counts[key] = self._counts.get(key, 0) + 1
        self._use.note(key, passed, len(self._session.window.step_ends))

    def _note_startup(self, stack: list[FrameType]) -> None:
        session = self._session
        if session.startup is not None and not session.window.step_ends and not session.window.is_over:
            phase = (session.recorder.stack[-1:] or [""])[0]
            session.startup.take(stack, phase, session.recorder.has_grad)

    def _progress(self, stack: list[FrameType]) -> None:
        """The live status that the parent shows: steps and, before the first one, the frame that it waits in."""
        window = self._session.window
        where = describe(stack) if stack else ("", "", "", 0, "")
        status = {
            "steps": len(window.step_ends),
            "warmup": window.warmup,
            "over": window.is_over,
            "plan": self._session.plan.current,
            "file": where[2] or where[0],
            "line": where[3],
            "function": where[4] or where[1],
        }
        path = os.path.join(self._session.request["run_dir"], f"status-{os.getpid()}")
        try:
            with open(path + "~", "w", encoding="utf-8") as file:
                json.dump(status, file)
            os.replace(path + "~", path)
        except OSError:  # the run folder is gone: the parent was killed
            self._stop.set()

    def _check_limits(self) -> None:
        session, window = self._session, self._session.window
        if window.is_over:
            is_late = session.plan.is_active and session.plan.is_overdue()
        else:
            limit = session.request["window"]["time_limit_s"] * 1e9
            # The training thread ends the window itself at its next step; this is for one that makes no more.
            is_late = bool(window.step_ends) and clock.now() - window.step_ends[0] > limit + PATIENCE_S * 1e9
        if is_late:
            session.time_is_up()


def pause(cost_s: float) -> float:
    """Seconds between two samples of which one takes `cost_s` of CPU time."""
    return min(LONGEST_S, max(INTERVAL_S, cost_s / MOST_SHARE))


def rows_of(counts: Samples) -> list[Row]:
    """Sample fields of {(phase, *describe(stack), *path(stack)): count}, the most frequent first; some have no path."""
    names = ("phase", "leaf_file", "leaf_function", "user_file", "user_line", "user_function", "path", "writers")
    return [{**dict(zip(names, key)), "count": counts[key]} for key in ranked(counts)]


def ranked(counts: Samples) -> list[tuple[Any, ...]]:
    """The most frequent keys, the first of them first."""
    return sorted(counts, key=lambda key: -counts[key])[:200]


class SampledUse:
    """What the process used between one look and the next, put down to the place that the next one sees.

    The sampler's own CPU time is left out.
    """

    def __init__(self) -> None:
        self._at = self._now(0)
        self._sums: dict[tuple[Any, ...], tuple[int, int, int]] = {}

    def _now(self, own_ns: int) -> tuple[int, int]:
        return clock.now(), clock.process_cpu() - own_ns

    def passed(self, own_ns: int) -> tuple[int, int]:
        """(wall time, CPU time) since the last look; `own_ns` is what the sampler has used so far."""
        before, self._at = self._at, self._now(own_ns)
        return self._at[0] - before[0], max(0, self._at[1] - before[1])

    def note(self, key: tuple[Any, ...], passed: tuple[int, int], step: int) -> None:
        """Put `passed` down to `key`, which is seen in step number `step`, from 0."""
        sums = self._sums.get(key, (0, 0, 0))
        self._sums[key] = (sums[0] + passed[0], sums[1] + passed[1], sums[2] + step)

    def row(self, key: tuple[Any, ...]) -> Row:
        """The Sample fields of `key` that are about its use."""
        wall, cpu, steps = self._sums.get(key, (0, 0, 0))
        return {"wall_ns": wall, "cpu_ns": cpu, "step_sum": steps}


def describe(stack: list[FrameType]) -> tuple[str, str, str, int, str]:
    """(leaf file, leaf function, user file, user line, user function) of a stack; empty without a user frame."""
    codes = [frame.f_code for frame in stack]
    first = next((at for at, code in enumerate(codes) if not call_sites.is_probe(code.co_filename)), len(codes) - 1)
    leaf = (codes[first].co_filename, codes[first].co_name)
    user = next((frame for frame in stack[first:] if call_sites.is_user(frame.f_code.co_filename)), None)
    if user is None:
        return (*leaf, "", 0, "")
    return (*leaf, user.f_code.co_filename, call_sites.line_of(user), user.f_code.co_name)


def path(stack: list[FrameType]) -> tuple[str, str]:
    """(the user's functions of a stack, those of them that write whenever they are called), the outermost first.

    With their classes where Python says them.
    """
    names, writing = [], []
    for frame in stack:
        code = frame.f_code
        if call_sites.is_user(code.co_filename):
            names.append(getattr(code, "co_qualname", code.co_name))
            writing += names[-1:] if logging_functions.always_writes(code) else []
    return SEPARATOR.join(reversed(names)), SEPARATOR.join(reversed(writing))
