"""The one clock of all events: CLOCK_MONOTONIC, comparable between the processes of a machine."""

from __future__ import annotations

from time import monotonic_ns, process_time_ns, thread_time_ns

now = monotonic_ns
"""Nanoseconds; only differences mean something."""

thread_cpu = thread_time_ns
"""CPU nanoseconds of the calling thread."""

process_cpu = process_time_ns
"""CPU nanoseconds of all threads of this process."""


def queued():
    """Nanoseconds for which the calling thread could run, and had no CPU; None where the system does not tell."""
    try:
        with open("/proc/thread-self/schedstat", encoding="ascii") as file:
            return int(file.read().split()[1])
    except (OSError, ValueError, IndexError):
        return None
