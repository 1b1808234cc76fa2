"""The one clock of all events: CLOCK_MONOTONIC, comparable between the processes of a machine."""

from __future__ import annotations

import os
from threading import get_ident
from time import monotonic_ns, process_time_ns, thread_time_ns

now = monotonic_ns
"""Nanoseconds; only differences mean something."""

thread_cpu = thread_time_ns
"""CPU nanoseconds of the calling thread."""

process_cpu = process_time_ns
"""CPU nanoseconds of all threads of this process."""

_SCHEDSTAT = "/proc/thread-self/schedstat"
"""CPU time, time in the queue, turns of the calling thread (proc_pid_schedstat)."""

_descriptors: dict[tuple[int, int], int] = {}
"""{(process, thread): a descriptor of its file}: opening it takes ten times as long as reading it."""


def queued() -> int | None:
    """Nanoseconds for which the calling thread was ready and had no CPU; None where the system does not say it."""
    key = os.getpid(), get_ident()
    try:
        if key not in _descriptors:
            _descriptors[key] = os.open(_SCHEDSTAT, os.O_RDONLY | os.O_CLOEXEC)
        return int(os.pread(_descriptors[key], 64, 0).split()[1])
    except (OSError, ValueError, IndexError):
        return None


def queued_since(before: int | None) -> int | None:
    """Nanoseconds in the queue since `before`, a value of queued(); None where that is unknown."""
    after = queued() if before is not None else None
    return after - before if after is not None and before is not None else None
