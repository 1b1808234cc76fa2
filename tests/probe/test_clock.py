"""The counters of the training thread."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time

import pytest

from autotune.probe import clock

HAS_QUEUE = clock.queued() is not None


@pytest.mark.skipif(not HAS_QUEUE or not hasattr(os, "sched_setaffinity"), reason="this system does not tell")
def test_a_thread_that_shares_its_cpu_waits_for_it_and_does_not_sleep():
    own = os.sched_getaffinity(0)
    cpu = {min(own)}
    with subprocess.Popen([sys.executable, "-c", "while True: pass"]) as other:
        try:
            os.sched_setaffinity(other.pid, cpu)
            os.sched_setaffinity(0, cpu)
            began = (clock.now(), clock.thread_cpu(), clock.queued())
            while clock.now() - began[0] < 0.5e9:
                pass
            wall, used, queued = (
                end - begin for begin, end in zip(began, (clock.now(), clock.thread_cpu(), clock.queued()), strict=True)
            )
        finally:
            os.sched_setaffinity(0, own)
            other.kill()
    assert queued > 0.1 * wall
    assert used + queued == pytest.approx(wall, rel=0.05)


@pytest.mark.skipif(not HAS_QUEUE, reason="this system does not tell")
def test_sleep_is_no_wait_for_a_cpu():
    before = clock.now(), clock.thread_cpu(), clock.queued()
    time.sleep(0.3)
    wall, used, queued = clock.now() - before[0], clock.thread_cpu() - before[1], clock.queued() - before[2]
    assert used + queued < wall - 0.2e9


@pytest.mark.parametrize("text", ["", "1", "a b c", None])
def test_what_the_system_does_not_tell_is_unknown(monkeypatch, tmp_path, text):
    if text is not None:
        (tmp_path / "schedstat").write_text(text)
    monkeypatch.setattr(clock, "_SCHEDSTAT", str(tmp_path / "schedstat"))
    monkeypatch.setattr(clock, "_descriptors", {})
    assert clock.queued() is None
    assert clock.queued_since(None) is None
    assert clock.queued_since(3) is None


@pytest.mark.skipif(not HAS_QUEUE, reason="this system does not tell")
def test_each_thread_has_its_own_descriptor(monkeypatch):
    monkeypatch.setattr(clock, "_descriptors", {})
    told = [clock.queued()]
    thread = threading.Thread(target=lambda: told.append(clock.queued()))
    thread.start()
    thread.join()
    assert None not in told
    assert len(clock._descriptors) == 2
