"""One Recording with what several subjects need of it, computed once."""

from __future__ import annotations

import itertools
from bisect import bisect_right
from collections.abc import Iterator, Sequence

from msgspec import Struct

from autotune.derive import device_clock, evaluation_spans, loaders, timeline
from autotune.derive.evaluation_spans import EvaluationSpan
from autotune.derive.loaders import LoaderSubject
from autotune.derive.timeline import EventNode, ExclusiveTimes
from autotune.model.recording import Recording

MS = 1e6
S = 1e9


class MeasuredWindow(Struct, frozen=True):
    """The window: `steps` optimizer steps in `start_ns..end_ns`, their lengths in ms, and who owns the time.

    On CUDA `parts` are of the device's clock, where the Recording has it.
    """

    start_ns: int
    end_ns: int
    steps: int
    step_ms: tuple[float, ...]
    parts: ExclusiveTimes

    @property
    def wall_ns(self) -> int:
        return self.end_ns - self.start_ns

    @property
    def mean_ms(self) -> float:
        """Milliseconds per optimizer step."""
        return self.wall_ns / self.steps / MS

    def holds(self, at_ns: int) -> bool:
        return self.start_ns <= at_ns < self.end_ns

    def phase_ms(self, phase: str) -> float | None:
        """Milliseconds of `phase` per step; None when it was not seen."""
        own = self.parts.phase_ns.get(phase)
        return None if own is None else own / self.steps / MS

    def without_ms(self, *phases: str) -> float:
        """The mean step without what these phases took."""
        return self.mean_ms - sum(self.phase_ms(phase) or 0.0 for phase in phases)


class RecordingView(Struct, frozen=True):
    """`nodes` are the events until the end of the window (of the recording, without a window), `evaluations`
    the evaluations among them. `window` is None when no step was measured. `code_epochs` are those that the loop of the
    script counts, as its code says, None where that is not certain.
    """

    recording: Recording
    nodes: tuple[EventNode, ...]
    loaders: tuple[LoaderSubject, ...]
    evaluations: tuple[EvaluationSpan, ...]
    window: MeasuredWindow | None
    code_epochs: int | None = None

    @property
    def train(self) -> LoaderSubject | None:
        return next((loader for loader in self.loaders if loader.is_train), None)

    @property
    def step_ends_ns(self) -> tuple[int, ...]:
        """The end of every optimizer step since the script began."""
        return self.recording.window.step_ends_ns if self.recording.window else ()

    def steps_before(self, at_ns: int) -> int:
        """Optimizer steps that had ended at `at_ns`."""
        return bisect_right(self.step_ends_ns, at_ns)

    def in_window(self, kind: str) -> Iterator[tuple[EventNode, int]]:
        """Nodes of `kind` that start in the window, with their own nanoseconds."""
        if self.window is not None:
            for node, own_ns in zip(self.nodes, self.window.parts.own_ns, strict=True):
                if node.event.kind == kind and self.window.holds(node.start_ns):
                    yield node, own_ns

    def train_fetches(self) -> list[int]:
        """When each training batch of the window was asked for; fetches inside evaluations are not training."""
        loader = self.train
        if loader is None:
            return []
        return [
            node.start_ns
            for node, _ in self.in_window("fetch")
            if node.event.ref in loader.iterated and node.event.flag and not self.is_evaluation(node.start_ns)
        ]

    def is_evaluation(self, at_ns: int) -> bool:
        return any(span.start_ns <= at_ns < span.end_ns for span in self.evaluations)

    def per_step(self, at_ns: Sequence[int], worth: Sequence[int] | None = None) -> list[int]:
        """How many of the instants fall into each step of the window; with `worth` of each, what they sum up to."""
        if self.window is None:
            return []
        ends = [end for end in self.step_ends_ns if self.window.start_ns < end <= self.window.end_ns]
        counts = [0] * len(ends)
        for at, each in zip(at_ns, worth if worth is not None else [1] * len(at_ns), strict=True):
            place = bisect_right(ends, at)
            if self.window.holds(at) and place < len(counts):
                counts[place] += each
        return counts


def view_of(recording: Recording, code_epochs: int | None = None) -> RecordingView:
    """The RecordingView of one Recording."""
    # What follows the window are the what-ifs' own steps, on batches that were seen before.
    end = recording.window.end_ns if recording.window else None
    nodes = timeline.nest([event for event in recording.events if end is None or event.start_ns < end])
    found = loaders.group(recording.loaders, nodes)
    last = max((node.end_ns for node in nodes), default=0)
    evaluated = evaluation_spans.find(nodes, found, end or last)
    return RecordingView(recording, nodes, found, evaluated, _measured(recording, nodes, evaluated), code_epochs)


def _measured(
    recording: Recording, nodes: Sequence[EventNode], evaluated: Sequence[EvaluationSpan]
) -> MeasuredWindow | None:
    window = recording.window
    if window is None or window.steps < 1 or window.end_ns <= window.start_ns:
        return None
    ends = [end for end in window.step_ends_ns if window.start_ns < end <= window.end_ns]
    edges = [window.start_ns, *ends]
    on_device = device_clock.between(window.device_clock, window.start_ns, window.end_ns)
    return MeasuredWindow(
        start_ns=window.start_ns,
        end_ns=window.end_ns,
        steps=window.steps,
        step_ms=tuple((b - a) / MS for a, b in itertools.pairwise(map(on_device, edges))),
        parts=timeline.split(
            timeline.moved(nodes, on_device),
            (window.start_ns, window.end_ns),
            [(on_device(span.start_ns), on_device(span.end_ns)) for span in evaluated],
        ),
    )
