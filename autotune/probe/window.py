"""Counts steps and says when the measured window begins and ends."""

from __future__ import annotations

import sys

from . import clock, describe, device_clock, kept_graphs
from .ending import ours
from .epochs import MOST_NS, Epochs

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from .session import ProbeSession
    from .shapes import CallSite, Row, WindowRequest

LEAST_WARMUP = 3
MOST_EXTRA_WARMUP = 20
MOST_STEPS = 1000
MEMORY_EVERY_NS, MEMORY_LATER_NS = 20_000_000, 100_000_000
"""Memory is read no more often, the second number after `MANY_READINGS`: a reading takes 40 us."""

MANY_READINGS = 25
"""As many as derive/growth.py needs to tell whether memory grows, and some more."""

NO_OPTIMIZER_S = 10
"""Of work. Backwards alone are counted as steps for so long: an optimizer may still be made, after weights were
initialised or importances were computed by gradients."""

MOST_SLOWDOWN = 3
"""By other processes: a thread that waits for a device works, too, and its CPU time does not tell."""

COUNTERS = ("cpu_ns", "process_cpu_ns", "queued_ns")


class StepWindow:
    """The state of the count. A step is one step of the first optimizer; without any optimizer, one backward.

    `request` has warmup (None: chosen here), steps (None: 30, and longer for short steps), min_s (the least wall
    time of the window when steps is None), multiple (what its steps divide by then; None: those of an epoch, where
    these are seen to be short), after (steps to let pass first), time_limit_s (from the first step).
    """

    def __init__(self, request: WindowRequest, session: ProbeSession) -> None:
        self._request = request
        self._session = session
        self.clear()

    def clear(self) -> None:
        """Back to the first step."""
        self.step_ends: list[int] = []
        self.steps_by: str | None = None
        self.warmup: int | None = None
        self.start: int | None = None
        self.end: int | None = None
        self.ended_by: str | None = None
        self._epochs = Epochs()
        self._long_enough_at: int | None = None
        self._graphs = 0
        self.compiling_steps = 0
        self._profiled: list[bool] = []
        self._averages = False
        self._averaged_now = 0
        self._averaged: list[int] = []
        self.step_cpus: list[int] = []
        self._process_cpus: list[int] = []
        self._inputs: list[int] = []
        self._memory: list[tuple[int, int]] = []
        self._memory_at: int | None = None
        self._on_cuda = False
        self.sequence_numbers: list[int] = []
        self._used_at_start: list[int | None] | None = None
        self._used: list[int | None] | None = None

    @property
    def is_over(self) -> bool:
        return self.end is not None

    def span(self) -> tuple[int, int]:
        """When the measured steps began and ended, once they are over."""
        assert self.start is not None and self.end is not None
        return self.start, self.end

    @property
    def profiled_steps(self) -> int:
        """Steps of the window in which a profiler recorded."""
        return 0 if self.warmup is None else sum(self._profiled[self.warmup :])

    @property
    def averaged_backwards(self) -> int:
        """Backwards of the window after which DDP averaged gradients over the processes."""
        return 0 if self.warmup is None else sum(self._averaged[self.warmup :])

    def on_backward(self, has_optimizer: bool) -> None:
        """A backward ended. It counts as a step only in a script that never made an optimizer."""
        self._averaged_now += self._averages
        if self._averages and self.start is not None and not self.is_over:
            self._session.averaging.on_backward(clock.now())
        if not has_optimizer and self.steps_by != "optimizer":
            self.steps_by = "backward"
            self._on_step()

    def on_optimizer_step(self) -> None:
        """The first optimizer made a step."""
        if self.steps_by == "backward":
            self.clear()
        self.steps_by = "optimizer"
        self._on_step()

    def on_forward(self, module: Any, flag: int) -> None:
        """A root model is called. DDP averages the gradients of its backward unless it is told not to (no_sync)."""
        if flag & 1:
            self._averages = bool(module.__dict__.get("require_backward_grad_sync"))

    def on_iterator(self, site: CallSite) -> None:
        """A loader that was made at `site` began to be iterated."""
        if not self.is_over:
            self._epochs.on_iterator((site["file"], site["line"]), len(self.step_ends))

    @ours
    def _on_step(self) -> None:
        if self.is_over:
            return
        moment = self._session.recorder.mark()
        self.step_ends.append(moment)
        self.step_cpus.append(clock.thread_cpu())
        self._process_cpus.append(clock.process_cpu())
        self._inputs.append(self._session.recorder.input_elements)
        self.sequence_numbers.append(kept_graphs.sequence_number())
        self._note_memory(moment)
        self._profiled.append(describe.is_profiling())
        self._averaged.append(self._averaged_now)
        self._averaged_now = 0
        if self._is_late(moment):
            self.close(self._drain(moment), "time_limit")
            self._session.plan.begin()
        elif self.start is None or self.warmup is None:
            self._maybe_begin(moment)
        elif self._is_complete(moment, self.start, len(self.step_ends) - self.warmup):
            self.close(self._drain(moment), "steps")
            self._session.plan.begin()

    def _drain(self, moment: int) -> int:
        """An edge of the window is here: the step ends when the device has done what the host queued ahead of it."""
        self.step_ends[-1] = device_clock.drained(moment, on_cuda=self._session.trains_on_cuda())
        return self.step_ends[-1]

    def _note_memory(self, moment: int) -> None:
        if self._memory_at is None:
            self._on_cuda = self._session.trains_on_cuda()
        elif moment - self._memory_at < (MEMORY_EVERY_NS if len(self._memory) < MANY_READINGS else MEMORY_LATER_NS):
            return
        self._memory_at = moment
        used = describe.used_bytes(self._on_cuda)
        if used is not None:
            self._memory.append((len(self.step_ends), used))

    def lets_pass(self) -> bool:
        """Whether the steps so far are among those that come before the warm-up."""
        return self._request["after"] > 0 and len(self.step_ends) <= self._request["after"]

    def _is_late(self, moment: int) -> bool:
        return moment - self.step_ends[0] > self._request["time_limit_s"] * 1e9

    def _maybe_begin(self, moment: int) -> None:
        done, compiled = len(self.step_ends) - self._request["after"], self._compiled_since()
        if done < self._least_warmup() or (compiled and done < MOST_EXTRA_WARMUP):
            return
        self.warmup = len(self.step_ends)
        self.start = self._drain(moment)
        self._used_at_start = self._counters()
        self._session.on_window_start()

    def _least_warmup(self) -> int:
        """More than the batches that workers had ready before the first step: those hide starvation."""
        if self._request["warmup"] is not None:
            return max(1, self._request["warmup"])
        ready = max((row["num_workers"] * (row["prefetch_factor"] or 0) for row in self._arguments()), default=0)
        per_step = max(1, self._session.recorder.num_backwards // max(1, len(self.step_ends)))
        return max(LEAST_WARMUP, -(-ready // per_step) + 1)

    def _arguments(self) -> list[Row]:
        return [loader["arguments"] for loader in self._session.loaders]

    def _compiled_since(self) -> bool:
        """Whether dynamo compiled something since the last step: such a step is no steady state.

        Ranks compile at different steps, but must begin and end at the same one: of several, whether it ever did.
        """
        utils = sys.modules.get("torch._dynamo.utils")
        graphs = utils.counters["stats"]["unique_graphs"] if utils is not None else 0
        changed, self._graphs = graphs != self._graphs, graphs
        self.compiling_steps += changed
        return changed if self._session.world_size() == 1 else graphs > 0

    def _is_complete(self, moment: int, start: int, steps: int) -> bool:
        wanted = self._request["steps"]
        if wanted is not None:
            return steps >= wanted
        # Ranks must end at the same step, whatever their clocks say: the others would wait for one that ended.
        is_alone = self._session.world_size() == 1
        long_enough = not is_alone or (
            moment - start >= self._request["min_s"] * 1e9
            and (self.steps_by != "backward" or self._worked_s(moment, start) >= NO_OPTIMIZER_S)
        )
        many_enough = steps >= self._request["default_steps"]
        are_steps = self.steps_by != "backward" or long_enough
        return (steps >= MOST_STEPS and are_steps) or (
            many_enough and long_enough and self._is_whole(moment, start, steps, is_alone)
        )

    def _worked_s(self, moment: int, start: int) -> float:
        """Seconds of work since `start`: on a busy machine what a script does before its training takes longer."""
        assert self.warmup is not None
        cpu_ns = self.step_cpus[-1] - self.step_cpus[self.warmup - 1]
        return float(max(cpu_ns, (moment - start) / MOST_SLOWDOWN) / 1e9)

    def _is_whole(self, moment: int, start: int, steps: int, is_alone: bool) -> bool:
        """Whether it has as many steps as it shall divide by; epochs whose ends do not come are not waited for."""
        multiple = self._request["multiple"]
        if multiple is not None or not is_alone:
            return steps % (multiple or 1) == 0
        self._long_enough_at = self._long_enough_at or moment
        epoch = self._epochs.steps((moment - start) / steps)
        return steps % epoch == 0 or moment - self._long_enough_at >= MOST_NS

    def close(self, moment: int, reason: str) -> None:
        """End the window here. A script that ended early has what came after the first half of its steps, at most.

        So has a diagnosis that is too slow for any step after the warm-up.
        """
        self.ended_by = reason
        if self._used_at_start is not None and reason in ("steps", "time_limit"):
            pairs = zip(self._used_at_start, self._counters())
            self._used = [None if begin is None or end is None else end - begin for begin, end in pairs]
        total = len(self.step_ends)
        # A limit may come before the steps that were to pass have passed.
        made = total - (self._request["after"] if reason == "time_limit" else 0)
        if made >= 2 and self._is_too_short(reason, total) and not self._hangs(moment):
            self.warmup = total - (made + 1) // 2
            self.start = self.step_ends[self.warmup - 1]
            self._used_at_start = None
        if self.start is not None and self.warmup is not None and total > self.warmup:
            moment = self.step_ends[-1]
        self.end = moment
        self._session.on_window_end()

    def _counters(self) -> list[int | None]:
        return [self.step_cpus[-1], self._process_cpus[-1], clock.queued()]

    def _is_too_short(self, reason: str, total: int) -> bool:
        if self.start is None or self.warmup is None or total == self.warmup:
            return reason == "script_ended" or (reason == "time_limit" and self._is_free())
        return reason == "script_ended" and total < 2 * self.warmup

    def _is_free(self) -> bool:
        """Whether nothing asks for a warm-up, or a length: two windows of one setting are not to be compared."""
        return self._request["warmup"] is None and self._request["multiple"] is None

    def _hangs(self, moment: int) -> bool:
        """Whether the step that has begun takes longer than any before it, by far."""
        longest = max(end - begin for begin, end in zip(self.step_ends, self.step_ends[1:]))
        return self.ended_by == "time_limit" and moment - self.step_ends[-1] > 2 * longest

    def summary(self, origin: int) -> Row | None:
        """The RecordedWindow of the Recording, or None when no step was measured."""
        if self.end is None or self.start is None or self.warmup is None or len(self.step_ends) <= self.warmup:
            return None
        return {
            "warmup_steps": self.warmup,
            "steps": len(self.step_ends) - self.warmup,
            "start_ns": self.start - origin,
            "end_ns": self.end - origin,
            "step_ends_ns": [moment - origin for moment in self.step_ends],
            "steps_by": self.steps_by,
            "ended_by": self.ended_by,
            "step_cpu_ns": [used - self.step_cpus[0] for used in self.step_cpus],
            "step_process_cpu_ns": [used - self._process_cpus[0] for used in self._process_cpus],
            "step_input_elements": self._inputs,
            "memory_bytes": self._memory,
            **dict(zip(COUNTERS, self._used or [None] * len(COUNTERS))),
        }
