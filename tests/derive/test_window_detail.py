"""Three steps on a time line, lengths in bins, the loader alone: numbers that can be added up by hand."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

from build import MS, batches, kernels, launches, on_host, recording, steps, what_if

from autotune.derive.recording_view import view_of
from autotune.derive.window_detail import detail
from autotune.model.recording import Fetch
from autotune.model.window_detail import Lane, WindowDetail


def told(**fields: Any) -> WindowDetail:
    return detail(view_of(recording(**fields)))


def spans(lane: Lane) -> list[tuple[float, float, str]]:
    return [(one.start_ms, one.end_ms, one.kind) for one in lane.spans]


def test_three_steps_of_the_window_follow_each_other() -> None:
    line = told(script=steps(6)).timeline
    assert line is not None and not line.is_profiled
    assert (line.length_ms, line.step_ends_ms) == (195.0, (65.0, 130.0, 195.0))
    (host,) = line.lanes
    assert spans(host)[:5] == [
        (0.0, 10.0, "data_wait"),
        (10.0, 30.0, "forward"),
        (30.0, 60.0, "backward"),
        (60.0, 65.0, "optimizer"),
        (65.0, 75.0, "data_wait"),
    ]
    assert sum(end - start for start, end, _ in spans(host)) == line.length_ms


def test_a_shorter_window_has_fewer_steps_and_none_has_no_line() -> None:
    line = told(script=steps(3)).timeline
    assert line is not None and line.step_ends_ms == (65.0, 130.0)
    assert told(script=steps(1)).timeline is None


def test_workers_have_a_lane_each() -> None:
    rows = tuple(Fetch(0, pid, (65 + 5 * pid) * MS, 20 * MS, MS, 0, 0, 8, False) for pid in (1, 2))
    main = Fetch(0, 9, 70 * MS, 20 * MS, MS, 0, 0, 8, True)
    line = told(script=steps(4), fetches=(*rows, main)).timeline
    assert line is not None
    assert [lane.name for lane in line.lanes] == ["host", "loader worker 0", "loader worker 1"]
    assert spans(line.lanes[1]) == [(5.0, 25.0, "worker")]


def test_a_profiled_device_shows_its_idle_gaps_and_the_lines_under_them() -> None:
    table = kernels(
        launches("gemm", 60, count=2),
        busy=60,
        start=260,
        end=360,
        idle=[(280, 320)],
        host=[on_host("train.py:9 (main)", 280, 320, kind="line")],
    )
    line = told(script=steps(4), kernels=table).timeline
    assert line is not None and line.is_profiled
    lanes = {lane.name: spans(lane) for lane in line.lanes}
    assert lanes["device"] == [(0.0, 20.0, "busy"), (60.0, 100.0, "busy")]
    assert lanes["your lines"] == [(20.0, 60.0, "line")]
    assert next(lane for lane in line.lanes if lane.name == "your lines").spans[0].place == "train.py:9 (main)"


def test_lengths_are_counted_once_each() -> None:
    found = told(script=steps(4), batches=batches([(10, 30), (20, 100)], width=100)).lengths
    assert found is not None
    assert sum(one.samples for one in found.bins) == 4
    assert (found.bins[0].low, found.width, found.pad_share) == (10, 100, 1 - 160 / 400)
    assert all(after.low == before.high + 1 for before, after in pairwise(found.bins))
    assert told(script=steps(4)).lengths is None


def test_the_loader_alone_is_told_for_the_batches_of_a_step() -> None:
    alone = [
        what_if("loader_alone", {"loader": 0, "num_workers": count}, batch_ns=[ms * MS] * 20, cpu_ns=MS, start_ns=0)
        for count, ms in ((0, 8), (1, 6))
    ]
    found = told(script=steps(6, micros=2), what_ifs=tuple(alone)).workers
    assert [(one.workers, one.alone_ms) for one in found] == [(0, 16.0), (1, 12.0)]
    assert told(script=steps(6)).workers == ()
