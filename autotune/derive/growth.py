"""Whether a step takes longer, and needs more memory, with each step that was made, and what that comes to.

A window is short, and much rises in it that does not go on rising: a machine that others begin to use, clocks that
slow down, allocators and caches that fill, batches that get longer, episodes that do. So growth is certain only where
everything holds that growth has and these have not:

- it rises all along: Kendall's tau of the steps' times is high, and so is the slope in each half (Theil-Sen, the
  median of the slopes of all pairs). A change of level in the middle has a tau of 1/2 and no slope in its halves;
- it adds up to a good part of a step within the steps that were seen;
- some phases grow and the others do not: a slower machine slows down all;
- the process computes in those phases, it does not wait for something that gets slower, nor, with several threads,
  for CPUs that others use;
- the inputs do not grow: neither what the models are called with (an episode's length counts there), nor the batches,
  nor how often the models are called;
- no bounded deque is still filling: its cost ends at its capacity.

Warm-up counts, without the first two steps: these make the optimizer's state and start threads.
"""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from statistics import median

from msgspec import Struct

from autotune.derive import timeline, training_plan
from autotune.derive.lines import place_name
from autotune.derive.recording_view import MS, MeasuredWindow, RecordingView
from autotune.derive.step import train_batches
from autotune.derive.summary_statistics import kendall_tau, theil_sen
from autotune.model.evidence import RUN, Fact, Location
from autotune.model.recording import Recording, Sample

SKIPPED = 2
LEAST_STEPS = 20
BLOCKS = 60
"""Longer series are judged by the medians of so many blocks: that leaves out what comes every few steps."""

LEAST_TAU = 0.6
LEAST_PHASE_TAU = 0.5
LEAST_HALF = 1 / 3
"""Of the slope of all steps, in each half."""

LEAST_RISE = 0.1
"""Of the median step, from the first step to the last: below it a clock that slows down may be the reason."""

LEAST_RISE_ON_CUDA = 0.3
"""The same on CUDA: a GPU that warms up slows down by more, and only what waits for it takes longer."""

LEAST_CPU = 0.5
"""Of the CPU that the process gets on average (one at most), what it uses in the phases that grow."""

LEAST_PART = 0.05
"""Of the rise of the phase that grows fastest: one that has less does not count among those that grow."""

MOST_OTHER = 0.25
"""How much the rest of the step may rise, of what the phases that grow do, both of their own median."""

LEAST_REST, LEAST_REST_NS = 0.01, 100_000
"""Of the step, or on a machine that is not crowded in nanoseconds: less says nothing of the machine's speed."""

CROWDED = 0.2
"""Of the window, what the training thread waits for a CPU: with several threads a step is then as long as others let it
be, and may be so more and more."""

INPUT_TAU, INPUT_RISE = 0.3, 0.03
"""From here on inputs grow."""

WORDS = {"other": "the script's own code", "data_wait": "data loading", "h2d": "copies to the device"}
"""Phases that have no word of their own in a sentence."""

PLANNED = 10_000
"""Steps that a run is taken to have where nothing says it."""

LEAST_HELD = 0.8
"""Of the steps: where fewer have a graph that lives, the script lets go of them."""

LEAST_SAMPLES = 8
LEAST_DEVIATION = 2.5
"""Standard errors by which the samples of a place that grows come late in the window."""


class _Growth(Struct, frozen=True):
    """Milliseconds that each step takes longer; the phases that do, if growth is certain, the largest first."""

    ms_per_step: float
    phases: tuple[str, ...]


def facts(view: RecordingView) -> Iterator[Fact]:
    """Facts `growth.*`; those that need more than was recorded are absent."""
    if len(view.step_ends_ns) <= LEAST_STEPS or view.window is None:
        return
    planned = training_plan.num_steps(view) or PLANNED
    yield Fact("growth.num_steps", RUN, planned)
    yield from _step(view, view.window, planned)
    yield from _memory(view, planned)
    yield from _kept_graphs(view.recording)


def _step(view: RecordingView, window: MeasuredWindow, planned: int) -> Iterator[Fact]:
    found = _step_growth(view, window)
    if found is None:
        return
    yield Fact("growth.step_ms_per_step", RUN, found.ms_per_step)
    yield Fact("growth.step_is_certain", RUN, bool(found.phases))
    if not found.phases:
        return
    more, done = found.ms_per_step, len(view.step_ends_ns)
    where: tuple[Location, ...] = ()
    if view.recording.device_type != "cuda":  # there the host waits in one phase for what another one queued
        yield Fact("growth.phase", RUN, WORDS.get(found.phases[0], found.phases[0]))
        found_at = _place(view, found.phases)
        if found_at is not None:
            file, line, function = found_at
            where = (Location(file, line),)
            yield Fact("growth.place", RUN, place_name(file, line, function))
    yield Fact("growth.step_share", RUN, min(1.0, more * (done - window.steps / 2) / window.mean_ms), where)
    yield Fact("growth.step_ms_then", RUN, median(window.step_ms[-3:]) + more * max(0, planned - done))


# The time of a step


def _step_growth(view: RecordingView, window: MeasuredWindow) -> _Growth | None:
    """None under twenty steps, or where the CPU time of the steps was not recorded."""
    recorded = view.recording.window
    if recorded is None or not recorded.step_process_cpu_ns:
        return None
    edges = [end for end in view.step_ends_ns if end <= window.end_ns][SKIPPED - 1 :]
    if len(edges) <= LEAST_STEPS:
        return None
    spans = [(span.start_ns, span.end_ns) for span in view.evaluations]
    parts = timeline.by_step(view.nodes, edges, spans)
    for row in parts:
        row.pop("evaluation", None)
    grown = _growing_phases(parts)
    total = [float(sum(row.values())) for row in parts]
    if not grown:
        return _Growth(_slope(total) / MS, ())
    own = _summed(parts, grown)
    is_certain = (
        _slope(own) * len(own) >= _least_rise(view.recording) * median(total)
        and not (_waited_for_cpus(view) and view.recording.torch_state.get("num_threads") != 1)
        and _rest_is_flat(
            own, [whole - part for whole, part in zip(total, own, strict=True)], _waited_for_cpus(view) is False
        )
        and _computes(view.recording, grown, total, recorded.step_process_cpu_ns)
        and not (grown[0] == "data_wait" and view.train is not None and view.train.num_workers)
        and not _inputs_grow(view, len(edges))
        and not _has_filling_deque(view.recording)
    )
    return _Growth(_slope(own) / MS, grown if is_certain else ())


def _least_rise(recording: Recording) -> float:
    return LEAST_RISE_ON_CUDA if recording.device_type == "cuda" else LEAST_RISE


def _has_filling_deque(recording: Recording) -> bool:
    return recording.kept_graphs is not None and recording.kept_graphs["num_filling"] > 0


def _growing_phases(parts: Sequence[Mapping[str, int]]) -> tuple[str, ...]:
    """The phases that surely grow, the fastest first, and others whose rise is a part of theirs."""
    series = {phase: _summed(parts, (phase,)) for phase in set().union(*parts)}
    slopes = {phase: _slope(values) for phase, values in series.items()}
    ranked = sorted(slopes, key=lambda phase: -slopes[phase])
    if not ranked or not _rises_steadily(series[ranked[0]]):
        return ()
    least = LEAST_PART * slopes[ranked[0]]
    taus = {phase: kendall_tau(_blocks(series[phase])) for phase in ranked if slopes[phase] >= least}
    return tuple(phase for phase, tau in taus.items() if tau >= LEAST_PHASE_TAU)


def _summed(parts: Sequence[Mapping[str, int]], phases: Sequence[str]) -> list[float]:
    return [float(sum(row.get(phase, 0) for phase in phases)) for row in parts]


def _rises_steadily(values: Sequence[float]) -> bool:
    """Whether values rise all along, in both halves too."""
    half, slope = len(values) // 2, _slope(values)
    halves = values[:half], values[-half:]
    is_rising = slope > 0 and kendall_tau(_blocks(values)) >= LEAST_TAU
    return is_rising and all(_slope(each) >= LEAST_HALF * slope for each in halves)


def _waited_for_cpus(view: RecordingView) -> bool | None:
    """Whether others took the CPUs in the window; None where the system does not say it."""
    queued = view.recording.window.queued_ns if view.recording.window is not None else None
    return None if queued is None or queued < 0 or view.window is None else queued > CROWDED * view.window.wall_ns


def _rest_is_flat(own: Sequence[float], rest: Sequence[float], is_quiet: bool) -> bool:
    """Whether the rest of the step, if there is one to tell by, does not rise as what grows does."""
    least = LEAST_REST * (median(rest) + median(own))
    if median(rest) < (min(least, LEAST_REST_NS) if is_quiet else least):
        return False
    return _slope(rest) / median(rest) <= MOST_OTHER * _slope(own) / max(1.0, median(own))


def _computes(recording: Recording, phases: Sequence[str], total: Sequence[float], cpus: Sequence[int]) -> bool:
    """Whether the process computes in these phases as far as they were sampled, and does not wait.

    Compared with the CPU that it gets in all: on a machine that others use that is less than one.
    """
    rows = [row for row in recording.samples if row.wall_ns and row.cpu_ns is not None and _phase(row) in phases]
    wall = sum(row.wall_ns or 0 for row in rows)
    got = min(1.0, (cpus[-1] - cpus[SKIPPED - 1]) / max(1.0, sum(total)))
    return not wall or sum(row.cpu_ns or 0 for row in rows) >= LEAST_CPU * got * wall


def _phase(sample: Sample) -> str:
    return timeline.PHASE_OF.get(sample.phase, "other")


def _inputs_grow(view: RecordingView, num_edges: int) -> bool:
    """Whether models are called with more, or more often, or batches get larger from step to step."""
    recorded = view.recording.window
    assert recorded is not None
    given = _differences(recorded.step_input_elements[SKIPPED - 1 :][:num_edges])
    edges = view.step_ends_ns[SKIPPED - 1 :][:num_edges]
    calls: Counter[int] = Counter()
    for node in view.nodes:
        if node.event.kind in ("forward", "backward") and not view.is_evaluation(node.start_ns):
            calls[view.steps_before(node.start_ns)] += 1
    called = [float(calls[step]) for step in range(SKIPPED, SKIPPED + len(edges) - 1)]
    sizes = [float(batch.num_bytes) for batch in train_batches(view)]
    useful = [float(batch.useful_tokens) for batch in train_batches(view) if batch.useful_tokens is not None]
    return any(_grows(each) for each in (given, called, sizes, useful))


def _grows(values: Sequence[float]) -> bool:
    if len(values) < LEAST_STEPS // 2:
        return False
    return kendall_tau(_blocks(values)) >= INPUT_TAU and _slope(values) * len(values) >= INPUT_RISE * median(values)


def _place(view: RecordingView, phases: Sequence[str]) -> tuple[str, int, str] | None:
    """The user's line (file, line, function) whose stack samples come late in the window; None where none surely does.

    What takes as long in each step is seen in the middle step on average, what begins with nothing two thirds through.
    """
    window = view.recording.window
    assert window is not None
    middle = window.warmup_steps + (window.steps - 1) / 2
    deviation = window.steps / 12**0.5
    late: dict[tuple[str, int, str], float] = {}
    for place, (count, step_sum) in _samples_by_line(view.recording.samples, phases).items():
        excess = step_sum / count - middle
        if count >= LEAST_SAMPLES and excess >= LEAST_DEVIATION * deviation / count**0.5:
            late[place] = excess * count
    return max(late, key=lambda place: late[place], default=None)


def _samples_by_line(samples: Sequence[Sample], phases: Sequence[str]) -> dict[tuple[str, int, str], tuple[int, int]]:
    """{the user's line: (samples, sum of their steps)} of some phases."""
    found: dict[tuple[str, int, str], tuple[int, int]] = {}
    for sample in samples:
        if _phase(sample) in phases and sample.user_file and sample.step_sum is not None:
            place = sample.user_file, sample.user_line, sample.user_function
            count, steps = found.get(place, (0, 0))
            found[place] = count + sample.count, steps + sample.step_sum
    return found


# Memory


def _memory(view: RecordingView, planned: int) -> Iterator[Fact]:
    """What steps add to memory, where they surely add all along."""
    recorded = view.recording.window
    rows = [row for row in recorded.memory_bytes if row[0] > SKIPPED] if recorded is not None else []
    if len(rows) < LEAST_STEPS:
        return
    per_row = (rows[-1][0] - rows[0][0]) / (len(rows) - 1)
    used = [float(each) for _, each in rows]
    if not _rises_steadily(used):
        yield Fact("growth.memory_is_steady", RUN, False)
        return
    more = round(_slope(used) / per_row)
    yield Fact("growth.memory_is_steady", RUN, True)
    yield Fact("growth.memory_bytes_per_step", RUN, more)
    yield Fact("growth.memory_bytes_then", RUN, round(used[-1]) + more * max(0, planned - rows[-1][0]))


def _kept_graphs(recording: Recording) -> Iterator[Fact]:
    """Graphs of steps that are over and live on, where nearly all of them do."""
    kept, window = recording.kept_graphs, recording.window
    if kept is None or window is None:
        return
    steps = len(window.step_ends_ns) - 1
    is_kept = kept["num_steps"] >= LEAST_HELD * steps
    holder = kept["holder"] if is_kept else None
    where = (Location(holder["file"], holder["line"]),) if holder is not None else ()
    yield Fact("growth.num_kept_graphs", RUN, kept["num_steps"] if is_kept else 0, where)
    if holder is not None:
        yield Fact("growth.holder", RUN, holder["name"])


# Series


def _differences(values: Sequence[int]) -> list[float]:
    return [float(after - before) for before, after in itertools.pairwise(values)]


def _slope(values: Sequence[float]) -> float:
    """Per value, by the blocks of the series."""
    size = _block_size(len(values))
    return theil_sen(_blocks(values)) / size


def _blocks(values: Sequence[float]) -> list[float]:
    """Medians of equally many values; the values themselves where these are few. What is left over is left out."""
    size = _block_size(len(values))
    return [median(values[first : first + size]) for first in range(0, len(values) - size + 1, size)]


def _block_size(count: int) -> int:
    return max(1, count // BLOCKS)
