"""How many CPUs the process keeps busy, line by line: what one thread does while the others wait.

The sampler notes what passed since its last look, wall time and CPU time of all threads. Time that others take the CPU
for, and waits, lower the number: it is never too high. torch's threads wait busily for a moment after each operation.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from autotune.derive.recording_view import RecordingView
from autotune.model.evidence import RUN, Fact
from autotune.model.recording import Sample

LEAST_SAMPLES = 10
ABOUT_ONE = (0.7, 1.3)

Place = tuple[str, int, str]


def facts(view: RecordingView, cpus: float | None) -> Iterator[Fact]:
    """Fact `step.one_cpu_share`, where the process may use `cpus` and torch has threads for several of them."""
    threads = view.recording.torch_state.get("num_threads")
    if view.window is None or cpus is None or cpus < 2 or not isinstance(threads, int) or threads < 2:
        return
    known = [sample for sample in view.recording.samples if sample.wall_ns is not None]
    busy = by_place(known)
    if busy:
        alone = [sample for sample in known if ABOUT_ONE[0] <= busy.get(place_of(sample), 0.0) <= ABOUT_ONE[1]]
        yield Fact("step.one_cpu_share", RUN, min(1.0, _wall_ns(alone) / view.window.wall_ns))


def by_place(samples: Sequence[Sample]) -> dict[Place, float]:
    """Mean busy CPUs of the places that were seen often enough."""
    groups: dict[Place, list[Sample]] = {}
    for sample in samples:
        if sample.wall_ns and sample.cpu_ns is not None:
            groups.setdefault(place_of(sample), []).append(sample)
    return {
        place: sum(sample.cpu_ns or 0 for sample in group) / _wall_ns(group)
        for place, group in groups.items()
        if sum(sample.count for sample in group) >= LEAST_SAMPLES
    }


def place_of(sample: Sample) -> Place:
    """The user's frame, or else the innermost one, whose line the sampler does not keep."""
    if sample.user_file:
        return sample.user_file, sample.user_line, sample.user_function
    return sample.leaf_file, 0, sample.leaf_function


def _wall_ns(samples: Sequence[Sample]) -> int:
    return sum(sample.wall_ns or 0 for sample in samples)
