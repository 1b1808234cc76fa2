"""What one batch costs to prepare, wall and CPU: in the workers of a DataLoader and in the training process."""

from __future__ import annotations

import functools
import os
import struct
from _thread import get_ident

from .. import clock
from .batches import is_looked_into

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

    from ..session import ProbeSession
    from ..shapes import Function

ROW = struct.Struct("<qqqqqqqqq")
"""One Fetch: loader, pid, start, wall, cpu, collate wall, collate cpu, samples, queued; in the workers' file."""
UNKNOWN = -1
WORKER_OF = "AUTOTUNE_LOADER"
"""In the environment of a worker: the training process, and the loader."""


def install(session: ProbeSession) -> None:
    """Time fetch and collate where batches are prepared."""
    from torch.utils.data._utils import fetch

    for kind in (fetch._MapDatasetFetcher, fetch._IterableDatasetFetcher):
        session.patches.set(kind, "fetch", _timed_fetch(session, kind.fetch))


def _timed_fetch(session: ProbeSession, fetch: Function) -> Function:
    numbers: dict[int, int] = {}

    @functools.wraps(fetch)
    def timed_fetch(self: Any, possibly_batched_index: Any) -> Any:
        recorder = session.recorder
        if not recorder.on:
            return fetch(self, possibly_batched_index)
        since, collate, spent = clock.now(), self.collate_fn, [0, 0]
        self.collate_fn = _timed_collate(collate, spent)
        number = numbers[recorder.loader] = numbers.get(recorder.loader, 0) + 1
        # In the training thread as batches are: two reads of a file beside a large model take 40 us of a short step.
        queued = clock.queued() if is_looked_into(number) or WORKER_OF in os.environ else None
        cpu, start = clock.thread_cpu(), clock.now()
        recorder.own_ns += start - since
        try:
            return fetch(self, possibly_batched_index)
        finally:
            end, cpu = clock.now(), clock.thread_cpu() - cpu
            queued = clock.queued_since(queued)
            # It is read before the start and after the end: no wait is longer than the fetch.
            queued = min(queued, end - start) if queued is not None else None
            self.collate_fn = collate
            count = len(possibly_batched_index) if hasattr(possibly_batched_index, "__len__") else 1
            _keep(session, (start, end - start, cpu, spent[0], spent[1], count), queued)
            recorder.own_since(end)

    return timed_fetch


def of_workers(session: ProbeSession) -> Iterator[tuple[Any, ...]]:
    """The rows that workers have written so far, as `Recorder.fetches` has them."""
    path = os.path.join(session.request["run_dir"], f"fetches-{os.getpid()}")
    if not os.path.exists(path):
        return
    with open(path, "rb") as file:
        data = file.read()
    whole = len(data) // ROW.size * ROW.size
    for *row, queued in ROW.iter_unpack(data[:whole]):
        yield (*row, False, None if queued == UNKNOWN else queued)


def _timed_collate(collate: Any, spent: list[int]) -> Function:
    def timed_collate(samples: Any) -> Any:
        start, cpu = clock.now(), clock.thread_cpu()
        try:
            return collate(samples)
        finally:
            spent[0] += clock.now() - start
            spent[1] += clock.thread_cpu() - cpu

    return timed_collate


def _keep(session: ProbeSession, row: tuple[int, ...], queued: int | None) -> None:
    """In a worker: append to the job's file (O_APPEND writes of one row are atomic). Else: keep in memory."""
    loader = os.environ.get(WORKER_OF)
    if loader is None:
        if get_ident() == session.recorder.thread:
            session.recorder.fetches.append((session.recorder.loader, os.getpid(), *row, True, queued))
        return
    trainer, _, ref = loader.partition(":")
    path = os.path.join(session.request["run_dir"], f"fetches-{trainer}")
    descriptor = os.open(path, os.O_APPEND | os.O_CREAT | os.O_WRONLY, 0o644)
    try:
        os.write(descriptor, ROW.pack(int(ref), os.getpid(), *row, UNKNOWN if queued is None else queued))
    finally:
        os.close(descriptor)
