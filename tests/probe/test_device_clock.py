"""The device's clock against a fake torch.cuda: a queue that works off what was recorded when it is asked to."""

from __future__ import annotations

import itertools
import threading

import pytest
import torch

from autotune.probe import clock, device_clock
from autotune.probe.recorder import Recorder, timed


class Cuda:
    """torch.cuda as far as marks need it. Every event lies 2 ms of device time behind the one before."""

    def __init__(self, monkeypatch):
        self.capturing = False
        self.stream = "trains"
        self.recorded, self.waits = [], 0
        cuda = self

        class Event:
            def __init__(self, enable_timing):
                assert enable_timing is True

            def record(self):
                self.at = len(cuda.recorded)
                cuda.recorded.append(self)

            def elapsed_time(self, later):
                assert cuda.waits == 1, "an event that may not be over is asked"
                return 2.0 * (later.at - self.at)

        monkeypatch.setattr(torch.cuda, "Event", Event)
        monkeypatch.setattr(torch.cuda, "synchronize", self._synchronize)
        monkeypatch.setattr(torch.cuda, "is_current_stream_capturing", lambda: self.capturing)
        monkeypatch.setattr(torch.cuda, "current_stream", lambda: self.stream)

    def _synchronize(self):
        self.waits += 1


@pytest.fixture
def cuda(monkeypatch):
    return Cuda(monkeypatch)


@pytest.fixture
def recorder():
    return Recorder(lambda error: None)


def test_both_ends_of_every_phase_are_marked_and_read_once(cuda, recorder):
    device_clock.start(recorder, clock.now())
    begin = recorder.device_clock
    timed(recorder, "forward", lambda: timed(recorder, "logging", lambda: None)())()
    assert cuda.waits == 0, "the window is not disturbed"
    rows = device_clock.stop(recorder)
    assert [device for _, device in rows] == [0, 2_000_000, 4_000_000, 6_000_000, 8_000_000, 10_000_000]
    hosts = [host for host, _ in rows]
    assert hosts == sorted(hosts)
    (inner, outer) = recorder.events
    assert {inner[1], inner[2], outer[1], outer[2]} < set(hosts)
    assert cuda.waits == 1
    assert begin.cost_ns() > 0
    assert recorder.device_clock is None


def test_after_the_window_nothing_is_marked(cuda, recorder):
    device_clock.start(recorder, clock.now())
    device_clock.stop(recorder)
    count = len(cuda.recorded)
    timed(recorder, "forward", lambda: None)()
    assert len(cuda.recorded) == count


def test_on_a_cpu_run_there_is_no_clock(cuda, recorder):
    timed(recorder, "forward", lambda: None)()
    assert device_clock.stop(recorder) == []
    assert (cuda.recorded, cuda.waits) == ([], 0)


def test_a_graph_that_is_being_captured_gets_no_event(cuda, recorder):
    device_clock.start(recorder, clock.now())
    cuda.capturing = True
    timed(recorder, "forward", lambda: None)()
    cuda.capturing = False
    assert len(device_clock.stop(recorder)) == 2


def test_only_the_stream_that_trains_is_marked(cuda, recorder):
    """A prefetcher copies on a stream of its own: its queue is another one, and what lies between two is no time."""
    device_clock.start(recorder, clock.now())
    cuda.stream = "copies"
    timed(recorder, "h2d", lambda: None)()
    cuda.stream = "trains"
    timed(recorder, "forward", lambda: None)()
    rows = device_clock.stop(recorder)
    (copied, forward) = recorder.events
    assert len(rows) == 4
    assert not {copied[1], copied[2]} & {host for host, _ in rows}
    assert {forward[1], forward[2]} < {host for host, _ in rows}


def test_an_edge_of_the_window_waits_for_the_device(cuda, monkeypatch):
    monkeypatch.setattr(clock, "now", lambda: 900 if cuda.waits else 9)
    assert device_clock.drained(9, on_cuda=True) == 900
    assert device_clock.drained(9, on_cuda=False) == 9
    assert cuda.waits == 1

    def refuse():
        raise RuntimeError("CUDA error: an illegal memory access was encountered")

    monkeypatch.setattr(torch.cuda, "synchronize", refuse)
    assert device_clock.drained(9, on_cuda=True) == 9


def test_instants_between_marks_are_moved_in_proportion():
    at = device_clock.moved([(100, 0), (110, 1000), (120, 1000), (120, 1500)])
    assert [at(moment) for moment in (90, 100, 105, 110, 115, 120, 130)] == [0, 0, 500, 1000, 1000, 1000, 1500]
    assert device_clock.moved([])(7) == 7
    assert device_clock.moved([(100, 0)])(130) == 0


def test_more_marks_than_allowed_leave_the_times_unknown(cuda, recorder, monkeypatch):
    monkeypatch.setattr(device_clock, "MOST_MARKS", 4)
    device_clock.start(recorder, clock.now())
    for _ in range(5):
        timed(recorder, "forward", lambda: None)()
    assert device_clock.stop(recorder) == []
    assert len(cuda.recorded) == 4


@pytest.mark.parametrize("broken", ["Event", "is_current_stream_capturing", "synchronize"])
def test_what_cuda_refuses_does_not_reach_the_script(cuda, recorder, monkeypatch, broken):
    def refuse(*args, **kwargs):
        raise RuntimeError("CUDA error: operation not permitted")

    monkeypatch.setattr(torch.cuda, broken, refuse)
    device_clock.start(recorder, clock.now())
    assert timed(recorder, "forward", lambda: 7)() == 7
    assert device_clock.stop(recorder) == []


def test_a_thread_that_watches_does_not_wait_for_the_device(cuda, recorder):
    device_clock.start(recorder, clock.now())
    found = []
    thread = threading.Thread(target=lambda: found.append(device_clock.stop(recorder)))
    thread.start()
    thread.join()
    assert (found, cuda.waits) == ([[]], 0)


def test_a_forked_child_has_no_clock(cuda, recorder):
    device_clock.start(recorder, clock.now())
    recorder.clear()
    assert recorder.device_clock is None


def test_what_the_marks_cost_counts_as_overhead(probed, cuda, monkeypatch):
    monkeypatch.setattr(clock, "thread_cpu", itertools.count(0, 10**6).__next__)
    device_clock.start(probed.recorder, clock.now())
    marks = probed.recorder.device_clock
    for moment in range(249):
        marks.mark(moment)
    assert marks.cost_ns() == 250 * 10**6 // device_clock.COST_MARKS
    probed.overhead.start()
    probed.overhead.stop()
    assert probed.overhead.row()["event_ns"] >= 250 * 10**6 // device_clock.COST_MARKS


def test_the_thread_that_watches_records_no_marks(probed, cuda):
    """Of a device that hangs each of them might wait."""
    device_clock.start(probed.recorder, clock.now())
    before = len(cuda.recorded)
    probed.overhead.start()
    thread = threading.Thread(target=probed.overhead.stop)
    thread.start()
    thread.join()
    assert len(cuda.recorded) == before
    probed.overhead.stop()
    assert len(cuda.recorded) == before + device_clock.COST_MARKS


def test_marks_that_cuda_refuses_cost_nothing_that_is_known(recorder, monkeypatch):
    device_clock.start(recorder, clock.now())
    monkeypatch.setattr(torch.cuda, "current_stream", lambda: 1 / 0)
    assert recorder.device_clock.cost_ns() == 0
