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
    """Micro-batches of more than `most` samples are not tried; `why` says what of them is known, and how."""

    most: float
    why: str


def batch_room(evidence: Evidence, budget: MemoryBudget | None) -> BatchRoom | None:
    """What the diagnosis says of larger micro-batches; None where it says nothing.

    A measured peak of twice the micro-batch counts before `budget`. Of its rest that grows in step with the micro-batch
    which is not held between two steps, as the weights of teachers and averages are. That holds for a device alone: of
    a process's resident memory nobody knows what grows.
    """
    now = evidence.lookup(TRAIN, BATCH_SIZE)
    if type(now) is not int or now < 1:
        return None
    if evidence.lookup(RUN, "batch_curve.double_ran_out") is True:
        return BatchRoom(2 * now - 1, f"would not fit: {2 * now} ran out of memory in the diagnosis")
    needed = evidence.lookup(RUN, "batch_curve.double_needs_bytes")
    if isinstance(needed, int):
        why = f"would not fit: {2 * now} needs {size(needed)} at least by the diagnosis, and the device has less"
        return BatchRoom(2 * now - 1, why)
    used, doubled = (evidence.lookup(RUN, name) for name in ("memory.used_share", "batch_curve.double_used_share"))
    if isinstance(used, int | float) and isinstance(doubled, int | float):
        return _by_growth(now, used, doubled - used, "the peaks of this micro-batch and of twice it")
    return _by_budget(now, budget) if budget is not None else None


def _by_budget(now: int, budget: MemoryBudget) -> BatchRoom | None:
    rest, limit, held = budget.of(parts.ACTIVATIONS), budget.limit_bytes, budget.held_bytes
    weights, gradients, state = (budget.of(name) for name in (parts.WEIGHTS, parts.GRADIENTS, parts.OPTIMIZER))
    if not budget.on_device or not limit or None in (rest, held, weights, gradients, state):
        return None
    used = (rest or 0) + (weights or 0) + (gradients or 0) + (state or 0)
    # Gradients may be held or not: where they are, what is counted as growing is too small by them.
    grows = (rest or 0) - max(0, (held or 0) - (weights or 0) - (state or 0))
    return _by_growth(now, used / limit, grows / limit, "the memory budget of the diagnosis")


def _by_growth(now: int, used: float, grows: float, by: str) -> BatchRoom | None:
    """`used` and what a further `now` samples add are shares of the memory. The micro-batch of the run is never left
    out."""
    if grows <= 0:
        return None
    most = max(float(now), now * (1 + (MEMORY_SHARE - used) / grows))
    return BatchRoom(most, f"would take more than {MEMORY_SHARE:.0%} of the memory by {by}")


def within(points: Iterable[Point], room: BatchRoom | None) -> tuple[Point, ...]:
    """The points whose micro-batch may fit."""
    return tuple(point for point in points if room is None or not _is_beyond(point, room))


def left_out(points: Iterable[Point], room: BatchRoom | None) -> Iterator[SkippedSetting]:
    """The micro-batches that are not tried, and why."""
    sizes = [point[BATCH_SIZE] for point in points if room is not None and _is_beyond(point, room)]
    if sizes and room is not None:
        yield SkippedSetting(BATCH_SIZE, f"micro-batches of {_listed(sizes)} {room.why}")


def _is_beyond(point: Point, room: BatchRoom) -> bool:
    value = point.get(BATCH_SIZE)
    return isinstance(value, int) and value > room.most


def _listed(sizes: Sequence[object]) -> str:
    """All of a few; the first and the last of many."""
    return ", ".join(map(str, sizes)) if len(sizes) <= 3 else f"{sizes[0]} to {sizes[-1]}"
