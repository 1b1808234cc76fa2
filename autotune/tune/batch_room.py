"""The largest micro-batch that is tried: what is known of its memory before any trial runs."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from msgspec import Struct

from autotune.model.evidence import RUN, Evidence
from autotune.model.outlook import MemoryBudget
from autotune.model.tuned import SkippedSetting
from autotune.predict import memory_budget as parts
from autotune.report.units import size
from autotune.tune.points import MEMORY_SHARE, TRAIN, Point

BATCH_SIZE = "loader.batch_size"


class BatchRoom(Struct, frozen=True):
    """Micro-batches of more than `most` samples are not tried; `why` says how that is known."""

    most: float
    why: str


def batch_room(evidence: Evidence, budget: MemoryBudget | None) -> BatchRoom | None:
    """What the diagnosis says of larger micro-batches; None where it says nothing.

    A measured peak of twice the micro-batch counts before `budget`, whose rest grows in step with the micro-batch. That
    holds for a device alone: of a process's resident memory nobody knows what grows.
    """
    now = evidence.lookup(TRAIN, BATCH_SIZE)
    if type(now) is not int or now < 1:
        return None
    if evidence.lookup(RUN, "batch_curve.double_ran_out") is True:
        needed = evidence.lookup(RUN, "batch_curve.double_needs_bytes")
        said = (
            f"needs {size(needed)} at least, and the device has less"
            if isinstance(needed, int)
            else "ran out of memory"
        )
        return BatchRoom(2 * now - 1, f"{2 * now} {said} in the diagnosis")
    used, doubled = (evidence.lookup(RUN, name) for name in ("memory.used_share", "batch_curve.double_used_share"))
    if isinstance(used, int | float) and isinstance(doubled, int | float):
        return _by_growth(now, used, doubled - used, "the peaks of this micro-batch and of twice it")
    return _by_budget(now, budget) if budget is not None else None


def _by_budget(now: int, budget: MemoryBudget) -> BatchRoom | None:
    grows, limit = budget.of(parts.ACTIVATIONS), budget.limit_bytes
    fixed = [budget.of(name) for name in (parts.WEIGHTS, parts.GRADIENTS, parts.OPTIMIZER)]
    if not budget.on_device or grows is None or not limit or None in fixed:
        return None
    used = grows + sum(one or 0 for one in fixed)
    return _by_growth(now, used / limit, grows / limit, "the memory budget of the diagnosis")


def _by_growth(now: int, used: float, grows: float, by: str) -> BatchRoom | None:
    """`used` and what a further `now` samples add are shares of the memory. The micro-batch of the run is never left
    out."""
    if grows <= 0:
        return None
    most = max(float(now), now * (1 + (MEMORY_SHARE - used) / grows))
    return BatchRoom(most, f"more than {MEMORY_SHARE:.0%} of the memory by {by}")


def within(points: Iterable[Point], room: BatchRoom | None) -> tuple[Point, ...]:
    """The points whose micro-batch may fit."""
    return tuple(point for point in points if room is None or not _is_beyond(point, room))


def left_out(points: Iterable[Point], room: BatchRoom | None) -> Iterator[SkippedSetting]:
    """The micro-batches that are not tried, and why."""
    sizes = [point[BATCH_SIZE] for point in points if room is not None and _is_beyond(point, room)]
    if sizes and room is not None:
        yield SkippedSetting(BATCH_SIZE, f"micro-batches of {_listed(sizes)} would not fit: {room.why}")


def _is_beyond(point: Point, room: BatchRoom) -> bool:
    value = point.get(BATCH_SIZE)
    return isinstance(value, int) and value > room.most


def _listed(sizes: Sequence[object]) -> str:
    """All of a few; the first and the last of many."""
    return ", ".join(map(str, sizes)) if len(sizes) <= 3 else f"{sizes[0]} to {sizes[-1]}"
