from __future__ import annotations

import os
import subprocess
import sys
from types import SimpleNamespace

import psutil
import pytest

from autotune.machine import tree
from autotune.machine.tree import Tree


class FakeProcess:
    """A psutil.Process with fixed readings; `gone` raises as psutil does for a process that vanished."""

    def __init__(self, pid, cpu=0.0, rss=0, read=None, gone=False, started=1.0):
        self.pid, self.cpu, self.rss, self.read, self.gone, self.started = pid, cpu, rss, read, gone, started

    def create_time(self):
        if self.gone:
            raise psutil.NoSuchProcess(self.pid)
        return self.started

    def oneshot(self):
        return _Nothing()

    def cpu_times(self):
        return SimpleNamespace(user=self.cpu * 0.75, system=self.cpu * 0.25)

    def memory_info(self):
        return SimpleNamespace(rss=self.rss)

    def io_counters(self):
        if self.read is None:
            raise psutil.AccessDenied(self.pid)
        return SimpleNamespace(read_bytes=self.read)


class _Nothing:
    def __enter__(self):
        return self

    def __exit__(self, *_):
        return None


@pytest.fixture
def watched(monkeypatch):
    """A Tree that reads the given lists of processes one after the other."""

    def watch(*readings):
        rest = iter(readings)
        monkeypatch.setattr(tree, "_tree", lambda pid: next(rest))
        seen = Tree(1)
        for _ in readings:
            seen.read()
        return seen

    return watch


def test_processes_that_ended_keep_their_last_reading(watched):
    seen = watched(
        [FakeProcess(1, cpu=1.0, rss=100, read=10), FakeProcess(2, cpu=4.0, rss=300, read=5)],
        [FakeProcess(1, cpu=2.0, rss=150, read=20)],
    )
    assert (seen.cpu_s, seen.read_bytes, seen.rss_peak_bytes, seen.num_processes_peak) == (6.0, 25, 400, 2)


def test_a_number_given_out_again_is_another_process(watched):
    seen = watched([FakeProcess(2, cpu=3.0, read=7)], [FakeProcess(2, cpu=1.0, read=2, started=9.0)])
    assert (seen.cpu_s, seen.read_bytes) == (4.0, 9)


def test_a_process_that_vanishes_while_it_is_read_is_left_out(watched):
    seen = watched([FakeProcess(1, cpu=1.0, rss=100), FakeProcess(2, gone=True)])
    assert (seen.cpu_s, seen.rss_peak_bytes, seen.num_processes_peak) == (1.0, 100, 1)


def test_without_a_reading_nothing_is_known(watched):
    seen = watched([], [FakeProcess(1, gone=True)])
    assert (seen.cpu_s, seen.read_bytes, seen.rss_peak_bytes, seen.num_processes_peak) == (
        None,
        None,
        None,
        0,
    )


def test_reads_that_nobody_may_see_are_unknown(watched):
    seen = watched([FakeProcess(1, cpu=1.0, rss=1)])
    assert (seen.cpu_s, seen.read_bytes) == (1.0, None)


def test_a_real_tree():
    inner = "import time; x = bytearray(40_000_000); print(flush=True); time.sleep(60)"
    outer = f"import subprocess, sys; subprocess.run([sys.executable, '-c', {inner!r}])"
    child = subprocess.Popen([sys.executable, "-c", outer], stdout=subprocess.PIPE, start_new_session=True)
    try:
        child.stdout.readline()
        seen = Tree(child.pid)
        seen.read()
        assert seen.num_processes_peak == 2
        assert 40_000_000 < seen.rss_peak_bytes < 200_000_000
        assert seen.cpu_s > 0
    finally:
        os.killpg(child.pid, 9)
        child.wait()
        child.stdout.close()
    seen.read()
    assert seen.num_processes_peak == 2
