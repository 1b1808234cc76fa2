"""The points of the axes whose values depend on the script and the machine."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Mapping, Set

from autotune.model.evidence import Evidence, Value

TRAIN = "loader#train"
"""The loader whose settings are searched."""

COUNTS = (0, 1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64)
WORKERS_PER_CPU = 2
"""Workers that wait for I/O need no CPU; more than this many cost memory, start-up and hand-over."""

DEFAULT_PREFETCH = 2
PREFETCHES = (DEFAULT_PREFETCH, 8)
"""Prefetch factors: the default of torch, and a queue that evens out batches of very different duration."""

DEFAULTS: Mapping[str, Value] = {
    "loader.prefetch_factor": DEFAULT_PREFETCH,
    "loader.persistent_workers": False,
}
"""The defaults of a loader with workers."""

MEMORY_SHARE = 0.9
"""Share of the memory that a larger micro-batch may be expected to use; the rest is for longer samples."""

SPARE_SHARE = 0.5
"""Share of the free memory and of the free /dev/shm that additional workers may be expected to use."""

Point = dict[str, Value]
Points = Callable[[Evidence, Set[str]], tuple[Point, ...]]
"""(evidence, the settings that may change) -> the points of an axis, from the smallest to the largest."""


def batches(evidence: Evidence, names: Set[str]) -> tuple[Point, ...]:
    """Micro-batch x accumulation at the same global batch; none where one of them is not known or fixed."""
    size, steps = (_whole(evidence, name) for name in ("loader.batch_size", "train.accumulation_steps"))
    if not size or not steps or len(names) < 2:
        return ()
    sizes = [one for one in range(1, size * steps + 1) if size * steps % one == 0]
    return tuple({"loader.batch_size": one, "train.accumulation_steps": size * steps // one} for one in sizes)


def loaders(evidence: Evidence, names: Set[str]) -> tuple[Point, ...]:
    """Workers x prefetch x persistent x pinned. Defaults are left out, unless the script gives the setting."""
    free = {name: values for name, values in _free(evidence).items() if name in names}
    found = [
        _loader(evidence, count, dict(zip(free, values, strict=True)))
        for count in (_counts(evidence) if "loader.num_workers" in names else ())
        for values in itertools.product(*free.values())
    ]
    return tuple(point for at, point in enumerate(found) if point not in found[:at] and _has_room(evidence, point))


def _counts(evidence: Evidence) -> Iterator[int]:
    cpus, now = _number(evidence, "machine.cpus_per_rank"), _whole(evidence, "loader.num_workers")
    if cpus is not None and now is not None:
        yield from sorted({now, *(count for count in COUNTS if count <= max(1, WORKERS_PER_CPU * cpus))})


def _free(evidence: Evidence) -> Mapping[str, tuple[Value, ...]]:
    """The values of the other settings of a loader: those that could help here, and the present one."""
    prefetch = _whole(evidence, "loader.prefetch_factor") or DEFAULT_PREFETCH
    persistent, pinned = (evidence.lookup(TRAIN, f"loader.{name}") for name in ("persistent_workers", "pin_memory"))
    lasts = (True,) if _has_several_epochs(evidence) else ()
    return {
        "loader.prefetch_factor": tuple(sorted({prefetch, *PREFETCHES})),
        "loader.persistent_workers": tuple(sorted({persistent is True, *lasts})),
        "loader.pin_memory": tuple(sorted({pinned is True, True})),
    }


def _has_several_epochs(evidence: Evidence) -> bool:
    """Whether the workers are started for more than one epoch."""
    seen = (_number(evidence, name) for name in ("run.num_planned_epochs", "loader.num_epochs_seen"))
    return evidence.lookup(TRAIN, "loader.is_iterated_again") is True or any(
        one is not None and one > 1 for one in seen
    )


def _loader(evidence: Evidence, count: int, others: Mapping[str, Value]) -> Point:
    point: Point = {"loader.num_workers": count}
    for name, value in others.items():
        if not count and name == "loader.persistent_workers":
            value = False
        if (count or name != "loader.prefetch_factor") and (_is_given(evidence, name) or value != DEFAULTS.get(name)):
            point[name] = value
    return point


def _is_given(evidence: Evidence, name: str) -> bool:
    setting = evidence.setting(TRAIN, name)
    return setting is not None and setting.value is not None and setting.origin != "default"


def _has_room(evidence: Evidence, point: Mapping[str, Value]) -> bool:
    """Whether the workers fit into the memory, each as large as a process of the run at most, and their batches into
    /dev/shm."""
    count, now = _int(point.get("loader.num_workers")) or 0, _whole(evidence, "loader.num_workers") or 0
    resident, free = (_number(evidence, f"machine.{name}") for name in ("rss_peak_bytes", "memory_available_bytes"))
    batch, shared = (_number(evidence, name) for name in ("loader.batch_bytes", "machine.shm_free_bytes"))
    more = (count - now) * resident / (now + 1) if resident is not None else 0.0
    ready = count * (_int(point.get("loader.prefetch_factor")) or DEFAULT_PREFETCH)
    return count <= now or (
        (free is None or more <= SPARE_SHARE * free)
        and (batch is None or shared is None or ready * batch <= SPARE_SHARE * shared)
    )


def threads(evidence: Evidence, names: Set[str]) -> tuple[Point, ...]:
    """Powers of two up to the number of CPUs, the number of CPUs, and the present one."""
    now, cpus = _whole(evidence, "train.num_threads"), _number(evidence, "machine.cpus_per_rank")
    if now is None or cpus is None or not names:
        return ()
    doubled = itertools.takewhile(lambda count: count <= cpus, (2**power for power in itertools.count()))
    return tuple({"train.num_threads": count} for count in sorted({now, int(max(1, cpus)), *doubled}))


COMPUTED: Mapping[str, Points] = {"batch": batches, "workers": loaders, "threads": threads}
"""By the name of the axis in catalogue/settings.toml."""


def _number(evidence: Evidence, name: str) -> float | None:
    value = evidence.lookup(TRAIN, name)
    return float(value) if isinstance(value, int | float) and not isinstance(value, bool) else None


def _whole(evidence: Evidence, name: str) -> int | None:
    return _int(evidence.lookup(TRAIN, name))


def _int(value: Value | None) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) else None
