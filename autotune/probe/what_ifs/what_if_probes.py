"""The what-if probes: after the window the same process answers questions, because its weights are thrown away anyway.

They are driven by the DataLoader hook: instead of fresh batches the script gets kept ones, whole or of another size.
After each phase the Recording is written again. The first phases ask nothing: they look closer at a few more steps of
the script as they are, on its own next batches.
"""

from __future__ import annotations

import sys
from collections import deque
from functools import partial

from .. import clock, device_clock, ending
from ..lines.flop_count import FlopCount
from ..lines.frozen import FrozenComparison
from ..lines.line_sampler import LineSampler
from ..lines.operations import LineOperations
from ..lines.results import ResultComparison
from ..lines.rows import RowComparison
from . import cacheable_items, kernels, loader_test, memory_room, other_load, schedule, torch_settings
from .batch_buffer import BatchBuffer
from .batch_copies import resized
from .needless_work import CHANGES, NeedlessWork

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Callable

    from ..session import ProbeSession
    from ..shapes import LivePhase, Phase, Row, Undo

TRAINING = ("replay", "micro_batch", "narrow_batch", "replay_changed")
"""The phases that train, on kept batches or, without a loader, on the script's own."""

LIVE = ("profile", "lines", "operations", "results", "rows", "products")
"""The phases in which the script goes on as it is, with batches of its loader's; in "frozen" it gets one batch again
and again."""

PROFILE_LIMIT_SHARE = 0.25
"""Profiled steps take no more of the phases' time than this, where one step leaves a choice."""


class WhatIfProbes:
    """The phases after the window. `is_active` while one of them runs, `current` names it."""

    def __init__(self, session: ProbeSession) -> None:
        self._session = session
        self._kept = BatchBuffer()
        self._phases: deque[Phase] = deque()
        self._marks: list[tuple[int, int, int]] = []
        self._others: tuple[float, float, float] | None = None
        self._live: LivePhase | None = None
        self._sampler: LineSampler | None = None
        self._has_fresh = True
        self._undo: Undo | None = None
        self._needless = NeedlessWork(session)
        self._rounds = 1
        self._began = 0
        self.is_active = False
        self.current = ""

    def keep(self, ref: int, batch: Any, row: Row) -> None:
        """Offer a batch of the train loader, described by `row`, to be kept."""
        session = self._session
        if session.window.start is not None and session.is_train_loader(ref) and session.request["what_ifs"]:
            self._kept.offer(batch, row)

    def begin(self) -> None:
        """The window is over: let training go on natively, or ask what-ifs, or end."""
        session = self._session
        if session.request["keep_going"]:
            session.let_go()
            return
        session.write("completed")
        if session.window.start is not None:
            self._rounds, chosen = schedule.choose(session, self._kept, self._mean_s())
            self._phases.extend(chosen)
        self._began = clock.now()
        self.is_active = True
        # What a what-if breaks outside the hooks is no failure of the script: no traceback.
        sys.excepthook = lambda kind, error, trace: self.failed(error)
        self._next_phase()

    def next_batch(self, ref: int, step: Callable[[], Any]) -> Any:
        """What `next` of loader `ref` gives while a phase runs."""
        if not self._session.is_train_loader(ref):
            return self._fetch(ref, step)
        while self.is_active and self.current == "loader_alone":
            self._load_alone(ref)
        if self.current == "serialise":
            self._serialise()
        if self.current in LIVE and self._has_fresh:
            return self._fresh_batch(ref, step)
        recorder, start = self._session.recorder, clock.now()
        recorder.stack.append("kept")
        try:
            batch = self._remade()
        except Exception as error:  # e.g. a batch of one sample, to be halved
            self._record("failed", {"error": type(error).__name__})
            return self.next_batch(ref, step)
        finally:
            recorder.stack.pop()
        recorder.push("fetch", start, clock.now(), ref, 1)
        return batch

    def _fresh_batch(self, ref: int, step: Callable[[], Any]) -> Any:
        """The loader's own next batch: a copy of a kept one would not lie in pinned memory, and would cost no wait."""
        try:
            return self._fetch(ref, step)
        except StopIteration:  # an epoch ends; the kept batches go on
            if not len(self._kept):
                raise
            self._has_fresh = False
        if self.current == "profile":
            self._end_live()
        return self.next_batch(ref, step)

    def _fetch(self, ref: int, step: Callable[[], Any]) -> Any:
        """What the script's own `next` gives, as a wait."""
        recorder, came = self._session.recorder, 0
        start = recorder.enter("fetch")
        try:
            batch = step()
            came = 1
            return batch
        finally:
            recorder.leave("fetch", start, ref, came)

    def _remade(self) -> Any:
        """A copy of the next kept batch, of the size that the phase asks for."""
        if self.current == "frozen":
            self._kept.start()
        batch = self._kept.next(narrow=self.current == "narrow_batch")
        factor = self._phases[0][1].get("factor", 1)
        return resized(batch, factor) if factor != 1 else batch

    @ending.ours
    def on_step(self) -> None:
        """The first optimizer made a step while phases run."""
        if self._live is not None:
            if self._live.on_step():
                self._end_live()
            return
        if self.current == "watch":
            if self._needless.on_watched_step():
                self._record_watched()
            return
        if self.current not in TRAINING:
            return
        self._needless.on_replayed_step()
        if torch_settings.is_undone(self._session, self._phases[0][1]):
            self._record("failed", {})
            return
        recorder = self._session.recorder
        self._marks.append((recorder.mark(), len(recorder.events), recorder.input_elements))
        if len(self._marks) >= self._steps_of_phase() + schedule.THROWN_AWAY:
            self._record("completed", self._step_result())

    def _steps_of_phase(self) -> int:
        if self._session.world_size() > 1:
            return schedule.RANK_STEPS
        spent_s = (clock.now() - self._marks[0][0]) / 1e9
        # A changed setting may make steps many times as long.
        wanted = schedule.steps(self._phases[0], self._mean_s(), self._rounds)
        return wanted if spent_s < 2 * schedule.PHASE_S else min(schedule.LEAST_STEPS, wanted)

    def _profiled_steps(self) -> int:
        if self._session.world_size() > 1:
            return kernels.STEPS  # each rank makes the same steps, whatever its clock says
        limit_s, mean_s = PROFILE_LIMIT_SHARE * self._session.request["what_if_limit_s"], self._mean_s()
        wanted = max(kernels.STEPS, min(kernels.MOST_STEPS, int(kernels.LEAST_S / mean_s)))
        return min(wanted, max(1, int(limit_s / mean_s)))

    def _mean_s(self) -> float:
        window = self._session.window
        begin, end = window.span()
        return max(1e-6, (end - begin) / max(1, len(window.step_ends) - (window.warmup or 0)) / 1e9)

    def _step_result(self) -> Row:
        name, arguments = self._phases[0]
        events = self._session.recorder.events
        # On CUDA by the device's clock, which this waits for: no setting pays for the queue of the one before.
        rows = device_clock.stop(self._session.recorder)
        is_whole = bool(rows) and rows[0][0] <= self._marks[0][0] and rows[-1][0] >= self._marks[-1][0]
        at = device_clock.moved(rows if is_whole else [])
        pairs = zip(self._marks[1:], self._marks[2:])
        spans = [
            (at(after) - at(before), [(kind, at(a), at(b), ref, flag) for kind, a, b, ref, flag in events[begin:end]])
            for (before, begin, _), (after, end, _) in pairs
        ]
        result = loader_test.step_result(name, spans)
        factor = arguments.get("factor", 1)
        sizes = {unit: None if mean is None else factor * mean for unit, mean in self._kept.means().items()}
        sizes["input_elements"] = (self._marks[-1][2] - self._marks[1][2]) / max(1, len(self._marks) - 2)
        # Of several ranks the others are no other programs.
        sizes["other_cpus"] = other_load.cpus(self._others) if self._session.world_size() == 1 else None
        return {**result, **sizes, **({"peak_bytes": self._session.peak_bytes()} if name == "micro_batch" else {})}

    def _load_alone(self, ref: int) -> None:
        workers = self._phases[0][1]["num_workers"]
        outcome, result = loader_test.load(self._session, self._session.loaders[ref], workers)
        self._phases[0][1]["loader"] = ref
        self._record(outcome, result)

    def _serialise(self) -> None:
        outcome, result = loader_test.serialise(self._session)
        self._record(outcome, result)

    def _row(self, outcome: str, result: Row) -> Row:
        name, arguments = self._phases[0]
        return {"name": name, "outcome": outcome, "arguments": arguments, "result": result}

    def _record(self, outcome: str, result: Row) -> None:
        self._session.what_ifs.append(self._row(outcome, result))
        self._end_phase()

    def _end_live(self) -> None:
        self._keep_table()
        self._end_phase()

    def _keep_table(self) -> None:
        """What the live phase brought; it ends here."""
        if self._live is None:
            return
        live, self._live = self._live, None
        try:
            table = live.table()
            if self.current == "frozen" and table is not None and any(row["is_same"] for row in table["rows"]):
                table["are_same_batches"] = self._are_same_batches()
        except Exception:  # looking closer shall end no run
            table = None
        if self.current in ("results", "rows") and self._has_repeated_batches(table):
            table = None
        if self.current == "profile":
            self._session.kernels = table
        elif table is not None:
            self._session.lines[self.current] = table

    def _are_same_batches(self) -> bool | None:
        session, recorder = self._session, self._session.recorder
        recorder.on = False  # modules that transform the data are no model
        try:
            return cacheable_items.are_same_batches(session.loaders[session.train_loader()]["object"]())
        finally:
            recorder.on = True

    def _has_repeated_batches(self, table: Row | None) -> bool:
        """Whether every step got the same kept batches: equal results may then come from equal data."""
        handed = self._kept.num_handed_out()
        return table is not None and handed > 0 and round(handed / (table["steps"] + 1)) % len(self._kept) == 0

    def _record_watched(self) -> None:
        """What was found is tried next."""
        found = self._needless.result()
        self._phases.extendleft(reversed([self._phases.popleft(), *self._needless.choices(found, self._rounds)]))
        self._record("completed", found)

    def _end_phase(self) -> None:
        self._take_back()
        self._phases.popleft()
        self._session.write("completed")
        self._next_phase()

    def _leave_out_too_large(self) -> None:
        """Micro-batches that surely do not fit are noted and not tried."""
        while self._phases and self._phases[0][0] == "micro_batch":
            factor = self._phases[0][1]["factor"]
            needed = memory_room.needed_without_room(self._session, factor, self._kept.narrowest())
            if needed is None:
                return
            self._session.what_ifs.append(self._row("left_out", {"needed_bytes": needed}))
            self._phases.popleft()

    def _next_phase(self) -> None:
        self._leave_out_too_large()
        self._marks, self._others = [], other_load.reading()
        self._kept.start()
        # Ranks have agreed on what they do, and each has a clock of its own.
        goes_on = self._session.world_size() > 1 or not self.is_overdue()
        self.current = self._phases[0][0] if self._phases and goes_on else ""
        if self.current in TRAINING and self._session.trains_on_cuda():
            device_clock.start(self._session.recorder, clock.now())
        if self.current in (*LIVE, "frozen"):
            self._live = self._started()
        elif self.current == "watch":
            self._undo = self._needless.stop
        elif self.current == "replay_changed":
            arguments = self._phases[0][1]
            is_needless = any(name in CHANGES for name in arguments)
            change = self._needless.apply if is_needless else partial(torch_settings.apply, self._session)
            self._undo = change(arguments)
        elif self.current == "serialise" and not len(self._kept):
            self._serialise()
        elif not self.current:
            ending.leave(self._session)

    def _started(self) -> LivePhase:
        if self.current == "profile":
            is_alone = self._session.world_size() == 1
            return kernels.KernelProfile(self._profiled_steps(), self._session.recorder.origin, is_alone=is_alone)
        if self.current == "lines":
            self._sampler = LineSampler(self._session)
            return self._sampler
        if self.current == "results":
            return ResultComparison(*(self._sampler.hot() if self._sampler is not None else ({}, {})))
        if self.current == "rows":
            return RowComparison(self._session)
        if self.current == "products":
            return FlopCount(self._session)
        if self.current == "frozen":
            sampler, self._sampler = self._sampler, None  # it holds the modules alive
            return FrozenComparison(self._session, sampler.frozen() if sampler is not None else [])
        return LineOperations(self._session, self._mean_s())

    def _take_back(self) -> None:
        """The script's own settings again: the Recording says what they are."""
        self._session.recorder.device_clock = None
        if self._undo is not None:
            self._undo()
            self._undo = None

    def abandon(self) -> None:
        """The script ended by itself inside a phase: keep what it brought."""
        if self.is_active:
            self._keep_table()
        if self.is_active and self.current in TRAINING and len(self._marks) > 2:
            self._session.what_ifs.append(self._row("completed", self._step_result()))
        self._take_back()
        self.is_active = False

    def is_overdue(self) -> bool:
        """Whether the phases have used up their time."""
        return clock.now() - self._began > self._session.request["what_if_limit_s"] * 1e9

    def failed(self, error: BaseException) -> None:
        """The script raised inside a phase: write down what is known and leave before its handlers run."""
        self._take_back()
        if self._live is not None:
            self._keep_table()
        elif self._phases:
            outcome = "out_of_memory" if ending.is_out_of_memory(error) else "failed"
            self._session.what_ifs.append(self._row(outcome, {}))
        ending.leave(self._session)
