from __future__ import annotations

import os
import threading

import pytest

from autotune.probe import clock

pytestmark = pytest.mark.skipif(clock.thread_queued() is None, reason="the system does not tell the time in the queue")


def burn(cpu_s: float) -> None:
    end = clock.thread_cpu() + cpu_s * 1e9
    while clock.thread_cpu() < end:
        pass


def test_a_thread_that_shares_its_cpu_is_in_the_queue():
    own = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {min(own)})
    try:
        before, start = clock.thread_queued(), clock.now()
        child = os.fork()
        if child == 0:
            burn(0.3)
            os._exit(0)
        burn(0.3)
        os.waitpid(child, 0)
        waited, wall = clock.queued_since(before), clock.now() - start
    finally:
        os.sched_setaffinity(0, own)
    assert 0.05e9 < waited < wall


def test_each_thread_has_its_own_time():
    told = []
    thread = threading.Thread(target=lambda: told.append(clock.thread_queued()))
    thread.start()
    thread.join()
    assert told[0] is not None


def test_what_is_not_known_stays_unknown(monkeypatch):
    monkeypatch.setattr(clock, "_SCHEDSTAT", "/no/such/file")
    monkeypatch.setattr(clock, "_descriptors", {})
    assert clock.thread_queued() is None
    assert clock.queued_since(None) is None
    assert clock.queued_since(3) is None
