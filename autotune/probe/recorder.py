"""What happens in the training thread, kept in memory until the Recording is written."""

from __future__ import annotations

import functools
import os
import sys
from _thread import get_ident

from . import clock

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Any, Callable

    from .device_clock import DeviceClock
    from .shapes import CallSite, Event, Function, ModuleWatch, PassWatch, Row


MOST_INPUTS = 64
"""A longer list of a model's inputs is not looked into: that would take longer than it may."""


class Recorder:
    """Events, batches, fetches and calls of this process. Hooks do nothing while `on` is False.

    `stack` holds the kinds that run now, for the sampler and for the phase of an error.
    `input_elements` counts what the root models were given, in elements of tensors.
    `loader` is the one that was asked last, `loader_backwards` counts backwards by it, and `own_ns` is the time that
    the hooks themselves took in the thread that trains: beside large models their code and data are in no cache, and
    one call takes ten times as long as in a loop of its own.
    `sniff`, if any, is called with every module that runs inside a root's forward.
    `modules`, if any, is told of every module whose call begins or ends inside a root's forward, that of the root too.
    `passes`, if any, makes each call of backward and notes it.
    `in_forward` and `in_backward` repeat what `stack` holds, because every submodule's call asks them; `has_grad` says
    whether the last forward was called with gradients.
    `thread` is the one that trains: the main thread until another one runs the first backward.
    `device_clock`, if any, is marked at both ends of every phase.
    """

    def __init__(self, on_failure: Callable[[BaseException], object]) -> None:
        self._on_failure = on_failure
        self.origin = clock.now()
        self.thread = get_ident()
        self.on = True
        self._tensor = getattr(sys.modules.get("torch"), "Tensor", None)
        self.clear()

    def clear(self) -> None:
        """Forget everything: at the start and in a forked child."""
        self.pid = os.getpid()
        self.events: list[Event] = []
        self.fetches: list[tuple[Any, ...]] = []
        self.batches: list[Row] = []
        self.calls: list[Row] = []
        self.stack: list[str] = []
        self.in_forward = False
        self.has_grad = True
        self.sniff: Callable[[Any], None] | None = None
        self.modules: ModuleWatch | None = None
        self.passes: PassWatch | None = None
        self.in_backward = False
        self.failed_phase: str | None = None
        self.loader = -1
        self.num_backwards = 0
        self.num_batches = 0
        self.loader_backwards: dict[int, int] = {}
        self.own_ns = 0
        self.input_elements = 0
        self.device_clock: DeviceClock | None = None

    def mark(self) -> int:
        """Now; the device's clock, if there is one, is marked here."""
        moment = clock.now()
        marks = self.device_clock  # read once: the sampler's thread may take it away at any moment
        if marks is not None:
            marks.mark(moment)
        return moment

    def enter(self, kind: str, since: int | None = None) -> int:
        """`kind` begins to run; when. From `since` on the hook has run."""
        self.stack.append(kind)
        moment = self.mark()
        if since is not None:
            self.own_ns += moment - since
        return moment

    def leave(self, kind: str, start: int, ref: int = -1, flag: int = 0) -> None:
        """`kind`, entered at `start`, has ended: an event."""
        end = self.mark()
        # What a mark takes is counted by the device's clock: it may wait for the device, as the next launch would.
        since = end if self.device_clock is None else clock.now()
        self.push(kind, start, end, ref, flag)
        del self.stack[-1:]  # not pop: another window may have begun since it was entered
        self.own_since(since)

    def own_since(self, since: int) -> None:
        """The time from `since` to now was the probe's own."""
        self.own_ns += clock.now() - since

    def push(self, kind: str, start: int, end: int, ref: int = -1, flag: int = 0) -> None:
        """Add an event; times in clock.now() nanoseconds."""
        self.events.append((kind, start, end, ref, flag))

    def instant(self, kind: str, ref: int = -1, flag: int = 0) -> None:
        """Add an event without length."""
        moment = clock.now()
        self.events.append((kind, moment, moment, ref, flag))

    def is_mine(self) -> bool:
        """Whether the calling thread is the one that trains, and recording is on."""
        return self.on and get_ident() == self.thread

    def note_inputs(self, arguments: Iterable[Any], depth: int = 2) -> None:
        """A root model or a recomputed module gets these: how large its tensors are, also in short lists and dicts."""
        for each in arguments:
            if type(each) in (dict, list, tuple):
                if depth and len(each) <= MOST_INPUTS:
                    self.note_inputs(each.values() if type(each) is dict else each, depth - 1)
            elif type(each) is self._tensor:
                self.input_elements += each.numel()

    def note_backward(self) -> None:
        """A backward ended: the loader that was asked last is the one that trains."""
        self.num_backwards += 1
        if self.loader >= 0:
            self.loader_backwards[self.loader] = self.loader_backwards.get(self.loader, 0) + 1

    def phase(self) -> str:
        """What the training thread does now, as another thread sees it; "closure" for the script's own code.

        All that an evaluation does is evaluation, as it is in the events.
        """
        stack = self.stack[:]  # the training thread may empty it meanwhile
        return "evaluation" if "evaluation" in stack else (stack[-1:] or ["closure"])[0]

    def is_loading(self) -> bool:
        """Whether a batch is being fetched: modules that are called meanwhile transform data."""
        # A slice, which may be empty: another thread may ask while the last kind ends.
        return self.stack[-1:] in (["fetch"], ["iter"])

    def is_updating(self) -> bool:
        """Whether an optimizer runs, and not a closure that it was given."""
        return "optimizer" in self.stack and "closure" not in self.stack

    def call_row(self, rows: dict[tuple[str, int], int], kind: str, site: CallSite, name: str = "") -> int:
        """Index in `calls` of what is called at `site`; `rows` are those that one hooked function has."""
        key = (site["file"], site["line"])
        if key not in rows or rows[key] >= len(self.calls):
            rows[key] = len(self.calls)
            self.calls.append({"kind": kind, "site": site, **({"name": name} if name else {})})
        return rows[key]

    def failed(self, kind: str, error: BaseException) -> None:
        """An exception passes through `kind`: the innermost one is the failing phase."""
        if self.failed_phase is None:
            self.failed_phase = kind
        self._on_failure(error)


def timed(recorder: Recorder, kind: str, function: Function, ref: int = -1) -> Function:
    """`function`, recorded as an event of `kind` for each call in the training thread (the outermost of its kind)."""

    @functools.wraps(function)
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        since = clock.now()
        if not recorder.is_mine() or kind in recorder.stack:
            return function(*args, **kwargs)
        start = recorder.enter(kind, since)
        try:
            return function(*args, **kwargs)
        except BaseException as error:
            recorder.failed(kind, error)
            raise
        finally:
            recorder.leave(kind, start, ref)

    return wrapper


def counted(recorder: Recorder, kind: str, function: Function, site: Callable[[], CallSite]) -> Function:
    """`function`, recorded as an event whose `ref` is the row of its call site in `recorder.calls`.

    The site is taken before the call: after a read that waited for the device, looking would keep the device idle.
    """
    rows: dict[tuple[str, int], int] = {}

    @functools.wraps(function)
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        since = clock.now()
        if not recorder.is_mine():
            return function(*args, **kwargs)
        row = recorder.call_row(rows, kind, site())
        start = clock.now()
        recorder.own_ns += start - since
        try:
            return function(*args, **kwargs)
        finally:
            end = clock.now()
            recorder.push(kind, start, end, row)
            recorder.own_since(end)

    return wrapper
