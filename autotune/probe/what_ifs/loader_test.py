"""What-ifs that run by themselves: the loader alone, one serialisation, and the arithmetic of replayed steps."""

from __future__ import annotations

import os

from .. import clock
from . import cacheable_items, other_load, preparation_sampler

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

    from ..session import ProbeSession
    from ..shapes import Event, Row

LOADER_S = 2.0
LEAST_BATCHES, MOST_BATCHES = 32, 256
ENOUGH_S = 0.3
LONG_NS = 1_000_000_000
"""A batch that takes longer is not prepared again only to see what fills it."""

READY_BATCHES, READY_S = 8, 0.5
"""Batches that are taken when they are ready, and the most that waiting for them may take."""
REPLAYS = ("replay", "replay_changed")
PAUSES = ("fetch", "iter", "checkpoint", "evaluation", "logging", "serialise")
"""Events that are no part of a replayed step."""

NOT_OF_SIZE = ("gc",)
"""Calls of the script that take as long whatever the micro-batch: no cost of its own, shared by a larger one."""


def step_result(name: str, spans: list[tuple[int, list[Event]]]) -> Row:
    """{"micro_ns"}, and of a replay {"step_ns", "update_ns"} too, from (wall, events) of each step.

    Without fetches and interruptions; a micro-batch also without the update and what takes as long for any size.
    """
    steps, updates, micros = [], [], []
    for wall, events in spans:
        paused, closures = _covered(events, PAUSES), _covered(events, ("closure",))
        # The update without its closures, and what is none of the micro-batch, inside of either or not.
        called = (*PAUSES, *NOT_OF_SIZE)
        updated = _covered(events, (*called, "optimizer")) - _covered(events, (*called, "closure"))
        backwards = sum(1 for event in events if event[0] == "backward")
        steps.append(wall - paused)
        updates.append(_covered(events, ("optimizer",)) - closures)
        if backwards:
            micros.append((wall - updated - _covered(events, called)) // backwards)
    return {"micro_ns": micros, **({"step_ns": steps, "update_ns": updates} if name in REPLAYS else {})}


def _covered(events: list[Event], kinds: tuple[str, ...]) -> int:
    """How long at least one of the events of these kinds ran: an evaluation fetches and logs."""
    covered, until = 0, 0
    for start, end in sorted((start, end) for kind, start, end, _, _ in events if kind in kinds):
        covered += max(0, end - max(start, until))
        until = max(until, end)
    return covered


def load(session: ProbeSession, row: Row, workers: int) -> tuple[str, Row]:
    """(outcome, result) of taking batches from a copy of the loader with `workers` workers and nothing else to do."""
    recorder, loader = session.recorder, row["object"]()
    recorder.on = False
    before = other_load.reading()
    recorder.stack.append("fetch")
    try:
        result = _take(_copy(loader, workers), workers)
        result["other_cpus"] = other_load.cpus(before)
        if workers == 0 and max(result["batch_ns"], default=LONG_NS) < LONG_NS:
            result.update(_looked_into(loader))
    except Exception as error:  # the dataset does not bear another loader: say so, go on
        return "failed", {"error": type(error).__name__}
    finally:
        recorder.stack.pop()
        recorder.on = True
    return "completed", result


def _looked_into(loader: Any) -> Row:
    """What fills the batches, and whether samples repeat; without what the dataset does not bear."""
    found = {}
    for name, look in (
        ("samples", lambda: preparation_sampler.samples(_copy(loader, 0))),
        ("items", lambda: cacheable_items.items(loader)),
    ):
        try:
            found[name] = look()
        except Exception:  # e.g. a sampler that gives its indices once: what was timed stays
            continue
    return found


def _copy(loader: Any, workers: int) -> Any:
    from torch.utils.data import DataLoader

    several: dict[str, Any] = {"prefetch_factor": loader.prefetch_factor or 2} if workers else {}
    if loader.batch_sampler is not None:
        drawn: dict[str, Any] = {"batch_sampler": loader.batch_sampler}
    else:  # the dataset itself makes the batches
        drawn = {"batch_size": None, "sampler": loader.sampler}
    return DataLoader(
        loader.dataset,
        **drawn,
        collate_fn=loader.collate_fn,
        num_workers=workers,
        worker_init_fn=loader.worker_init_fn,
        multiprocessing_context=loader.multiprocessing_context if workers else None,
        **several,
    )


def _take(loader: Any, workers: int) -> Row:
    begin = clock.now()
    iterator = iter(loader)
    next(iterator)
    start_ns = clock.now() - begin
    ends = [clock.now()]
    cpu, queued = clock.thread_cpu(), clock.queued()
    is_over, most = False, _most(loader)
    while not is_over and not _is_enough(len(ends) - 1, ends[-1] - begin, most):
        is_over = next(iterator, None) is None
        if not is_over:
            ends.append(clock.now())
    cpu_ns, queued_ns = clock.thread_cpu() - cpu, clock.queued_since(queued)
    batch_ns = [after - before for before, after in zip(ends, ends[1:])]
    ready_ns = _ready(iterator, sum(batch_ns) / len(batch_ns)) if workers and batch_ns and not is_over else []
    # A loader ends its workers with the epoch, and one that is left before that when it goes away.
    stop = ends[-1] if is_over else clock.now()
    del iterator
    result = {
        "batch_ns": batch_ns,
        "ready_ns": ready_ns,
        "start_ns": start_ns,
        "cpu_ns": cpu_ns,
        "queued_ns": queued_ns,
    }
    if 0 < len(ready_ns) < READY_BATCHES:  # the epoch, and its workers, ended among them
        return result
    is_idle = is_over or (len(ready_ns) > 0 and workers * loader.prefetch_factor <= READY_BATCHES)
    return {**result, "end_ns": clock.now() - stop, "was_idle": is_idle}


def _most(loader: Any) -> int:
    """Batches whose pace is measured: of a short epoch some are left to be taken when they are ready."""
    try:
        left = len(loader) - READY_BATCHES - 2
    except TypeError:  # an epoch without a length
        return MOST_BATCHES
    return min(MOST_BATCHES, left) if left >= READY_BATCHES else MOST_BATCHES


def _ready(iterator: Iterator[Any], pace_ns: float) -> list[int]:
    """How long it takes to get a batch that the workers finished while this process was busy, as training is.

    Taking them at once does not tell: who was just asked answers from warm caches. Few workers have nothing to do after
    it: in twice the time of each batch they prepare two.
    """
    taken: list[int] = []
    if READY_BATCHES * 2 * pace_ns > READY_S * 1e9:
        return taken
    _spin(pace_ns)
    for _ in range(READY_BATCHES):
        begin = clock.now()
        if next(iterator, None) is None:
            break
        taken.append(clock.now() - begin)
        _spin(pace_ns)
    return taken


def _spin(pace_ns: float) -> None:
    until = clock.now() + 2 * pace_ns
    while clock.now() < until:
        pass


def _is_enough(batches: int, elapsed_ns: int, most: int = MOST_BATCHES) -> bool:
    if elapsed_ns > LOADER_S * 1e9 or batches >= most:
        return True
    return batches >= LEAST_BATCHES and elapsed_ns > ENOUGH_S * 1e9


def has_room(session: ProbeSession) -> bool:
    """Whether the models and the optimizers' states would leave at least half of what is free on the disk."""
    states = [row["state_bytes"] or {} for row in session.described_optimizers()]
    size: int = sum(row["param_bytes"] for row in session.described_models()) + sum(
        sum(each.values()) for each in states
    )
    disk = os.statvfs(session.request["run_dir"])
    return 2 * size < disk.f_bavail * disk.f_frsize


def serialise(session: ProbeSession) -> tuple[str, Row]:
    """(outcome, result) of saving the largest model and its optimizer once, beside the Recording."""
    import torch

    path = os.path.join(session.request["run_dir"], f"serialised-{os.getpid()}")
    start = clock.now()
    try:
        torch.save(session.state(), path)
        return "completed", {"ns": clock.now() - start, "bytes": os.path.getsize(path)}
    except Exception as error:  # a state that cannot be pickled, a full disk: unknown, not fatal
        return "failed", {"error": type(error).__name__}
    finally:
        session.recorder.push("serialise", start, clock.now())
        if os.path.exists(path):
            os.remove(path)
