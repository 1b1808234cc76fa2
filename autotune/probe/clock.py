"""The one clock of all events: CLOCK_MONOTONIC, comparable between the processes of a machine."""

from __future__ import annotations

from time import monotonic_ns, thread_time_ns

now = monotonic_ns
"""Nanoseconds; only differences mean something."""

thread_cpu = thread_time_ns
"""CPU nanoseconds of the calling thread."""
