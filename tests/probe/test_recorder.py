from __future__ import annotations

import threading

import pytest
import torch

from autotune.probe import clock
from autotune.probe.recorder import Recorder, counted, timed


@pytest.fixture
def failures():
    return []


@pytest.fixture
def recorder(failures):
    return Recorder(failures.append)


def kinds(recorder):
    return [event[0] for event in recorder.events]


def test_a_timed_call_is_one_event_with_what_it_returned(recorder):
    double = timed(recorder, "logging", lambda number: 2 * number, ref=3)
    assert double(4) == 8
    ((kind, start, end, ref, flag),) = recorder.events
    assert (kind, ref, flag) == ("logging", 3, 0)
    assert start <= end
    assert recorder.stack == []


def test_only_the_outermost_call_of_a_kind_counts(recorder):
    inner = timed(recorder, "checkpoint", lambda: recorder.stack.copy())
    outer = timed(recorder, "checkpoint", inner)
    assert outer() == ["checkpoint"]
    assert kinds(recorder) == ["checkpoint"]


def test_other_kinds_nest(recorder):
    inner = timed(recorder, "logging", lambda: recorder.stack.copy())
    assert timed(recorder, "checkpoint", inner)() == ["checkpoint", "logging"]
    inside, around = recorder.events
    assert (inside[0], around[0]) == ("logging", "checkpoint")
    assert around[1] <= inside[1] <= inside[2] <= around[2]


@pytest.mark.parametrize("wrap", [timed, lambda *a: counted(*a, site=lambda: {"file": "f", "line": 1})])
def test_nothing_is_recorded_while_off_or_in_another_thread(recorder, wrap):
    function = wrap(recorder, "gc", lambda: None)
    thread = threading.Thread(target=function)
    thread.start()
    thread.join()
    recorder.on = False
    function()
    assert recorder.events == []
    recorder.on = True
    function()
    assert kinds(recorder) == ["gc"]


def test_an_exception_ends_the_event_and_names_the_innermost_phase(recorder, failures):
    error = ValueError("x")

    def fail():
        raise error

    with pytest.raises(ValueError, match="x"):
        timed(recorder, "checkpoint", timed(recorder, "logging", fail))()
    assert recorder.failed_phase == "logging"
    assert kinds(recorder) == ["logging", "checkpoint"]
    assert recorder.stack == []
    assert failures == [error, error]


def test_counted_calls_share_a_row_per_site(recorder):
    sites = iter([("a.py", 1), ("b.py", 2), ("a.py", 1)])
    function = counted(recorder, "gc", lambda: None, lambda: dict(zip(("file", "line"), next(sites), strict=True)))
    for _ in range(3):
        function()
    assert [event[3] for event in recorder.events] == [0, 1, 0]
    assert [(row["kind"], row["site"]["file"]) for row in recorder.calls] == [("gc", "a.py"), ("gc", "b.py")]


def test_a_cleared_recorder_makes_its_rows_afresh(recorder):
    function = counted(recorder, "gc", lambda: None, lambda: {"file": "a.py", "line": 1})
    function()
    recorder.clear()
    function()
    assert len(recorder.calls) == 1
    assert [event[3] for event in recorder.events] == [0]


def test_a_site_is_taken_before_the_call_and_is_no_part_of_it(recorder):
    order = []

    def site():
        order.append("site")
        return {"file": "a.py", "line": clock.now()}

    read = counted(recorder, "sync", lambda: order.append("read"), site)
    read()
    assert order == ["site", "read"]
    assert recorder.events[0][1] >= recorder.calls[0]["site"]["line"]


def test_the_clock_may_be_taken_away_while_it_is_marked():
    class Raced(Recorder):
        """The sampler's thread ends the window after the first look at the clock."""

        @property
        def device_clock(self):
            found, self.kept = self.kept, None
            return found

        @device_clock.setter
        def device_clock(self, value):
            self.kept = value

    class Clock:
        def __init__(self):
            self.moments = []

        def mark(self, moment):
            self.moments.append(moment)

    recorder = Raced(lambda error: None)
    recorder.device_clock = marks = Clock()
    moment = recorder.mark()
    assert marks.moments == [moment]
    assert recorder.mark() >= moment


def test_the_last_kind_may_end_while_another_thread_asks_for_it(recorder):
    class Raced(list):
        """What was true when it was asked is gone afterwards."""

        def __bool__(self):
            return True

    recorder.stack = Raced()
    assert not recorder.is_loading()
    recorder.stack.append("fetch")
    assert recorder.is_loading()


def test_backwards_are_counted_by_the_loader_that_was_asked_last(recorder):
    for loader in (-1, 0, 1, 1):
        recorder.loader = loader
        recorder.note_backward()
    assert recorder.num_backwards == 4
    assert recorder.loader_backwards == {0: 1, 1: 2}


def test_inputs_are_counted_alone_and_in_short_lists_and_dicts(recorder):
    two = torch.ones(2)
    recorder.note_inputs((two, {"a": two, "b": [two, 3]}, "text", None, [two] * 64, [two] * 65))
    assert recorder.input_elements == 2 + 2 + 2 + 2 * 64
    recorder.note_inputs(([[[two]]],))
    assert recorder.input_elements == 2 + 2 + 2 + 2 * 64
    recorder.clear()
    assert recorder.input_elements == 0
