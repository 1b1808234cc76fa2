from __future__ import annotations

import os
import subprocess
import sys

import pytest
from verify_builders import start

from autotune.model.verified import AFTER, BEFORE
from autotune.verify.disturbances import (
    CROWDED,
    SLOWED,
    THROTTLED,
    CpuReading,
    disturbances,
    is_crowded,
    is_uneven,
    read,
    shares,
    unobservable_load,
    waited_s,
)


def test_the_counters_of_the_whole_machine(tmp_path) -> None:
    stat = tmp_path / "stat"
    stat.write_text("cpu  100 10 50 800 40 0 0 0 90 9\ncpu0 1 2 3\n")
    ticks = os.sysconf("SC_CLK_TCK")
    assert read(stat) == CpuReading(pytest.approx(160 / ticks), pytest.approx(1000 / ticks))


@pytest.mark.parametrize("text", [None, "", "cpu0 1 2 3 4 5\n", "cpu  1 2\n", "cpu  a b c d e\n"])
def test_no_counters_are_unknown(tmp_path, text) -> None:
    stat = tmp_path / "stat"
    if text is not None:
        stat.write_text(text)
    assert read(stat) is None


def test_what_is_not_ours_is_of_others() -> None:
    assert shares(CpuReading(10, 100), CpuReading(18, 110), 5.0) == (pytest.approx(0.3), pytest.approx(0.8))
    assert shares(CpuReading(10, 100), CpuReading(18, 110), 9.0) == (0.0, pytest.approx(0.8))


def test_what_a_worker_of_a_child_used_is_counted_to_its_end() -> None:
    began = waited_s()
    burn = "import time; end = time.process_time() + 0.2\nwhile time.process_time() < end: pass"
    worker = f"import subprocess, sys; subprocess.run([sys.executable, '-c', {burn!r}], check=True)"
    subprocess.run([sys.executable, "-c", worker], check=True)
    assert waited_s() - began >= 0.2


@pytest.mark.parametrize(
    ("before", "after", "own"),
    [
        (None, CpuReading(1, 2), 1.0),
        (CpuReading(1, 2), None, 1.0),
        (CpuReading(1, 2), CpuReading(2, 4), None),
        (CpuReading(1, 2),) * 2 + (0.0,),
    ],
)
def test_what_is_unknown_stays_unknown(before, after, own) -> None:
    assert shares(before, after, own) == (None, None)


@pytest.mark.parametrize(
    ("others", "busy", "crowded"),
    [
        (0.16, 0.91, True),
        (0.15, 0.91, False),
        (0.16, 0.9, False),
        (0.9, 0.5, False),
        (None, 1.0, False),
        (0.5, None, False),
    ],
)
def test_crowded_is_full_with_others(others, busy, crowded: bool) -> None:
    assert is_crowded(start(others_share=others, busy_share=busy)) is crowded


def test_each_start_has_what_disturbed_it() -> None:
    starts = [
        start(throttled_share=0.0, slowed_share=0.0),
        start(others_share=0.5, busy_share=0.99, throttled_share=0.9),
        start(throttled_share=0.06),
        start(slowed_share=0.11),
        start(throttled_share=0.05, slowed_share=0.1),
    ]
    assert disturbances(starts) == ["", CROWDED, THROTTLED, SLOWED, ""]


def test_a_quota_that_always_holds_one_side_back_is_how_it_trains() -> None:
    starts = [start(BEFORE, throttled_share=0.0), start(AFTER, throttled_share=0.4)] * 2
    assert disturbances(starts) == [""] * 4


def test_what_cannot_be_seen_is_said() -> None:
    seen = start(others_share=0.0, read_bytes=0)
    assert list(unobservable_load([seen])) == []
    assert len(list(unobservable_load([seen, start()]))) == 2
    assert "pynvml" in next(unobservable_load([start(others_share=0.0, read_bytes=0, is_on_device=True)]))
    assert list(unobservable_load([start(others_share=0.0, read_bytes=0, is_on_device=True, slowed_share=0.0)])) == []


MIB = 1 << 20


def sides(before: list[int | None], after: list[int | None], **fields):
    """Starts of a second (10 steps of 100 ms) that read so many bytes; `fields` are of the second side."""
    old = [start(BEFORE, read_bytes=size, samples=fields and 32.0) for size in before]
    return old + [start(AFTER, read_bytes=size, **fields) for size in after]


@pytest.mark.parametrize(
    ("before", "after", "uneven"),
    [
        ([0, 0, 0], [0, 0, 0], False),
        ([0, 0, 0], [MIB, MIB, MIB], False),
        ([0, 0, 0], [3 * MIB] * 3, True),
        ([3 * MIB] * 3, [0, 0, 0], True),
        ([900 * MIB, 0, 0], [0, 0, 0], False),
        ([400 * MIB] * 3, [410 * MIB] * 3, False),
        ([400 * MIB] * 3, [430 * MIB] * 3, True),
    ],
)
def test_the_sides_have_to_read_the_same_or_next_to_nothing(before, after, uneven: bool) -> None:
    assert is_uneven(sides(before, after)) is uneven


def test_steps_of_twice_as_many_samples_may_read_twice_as_much() -> None:
    assert not is_uneven(sides([100 * MIB] * 2, [200 * MIB] * 2, samples=64.0))
    assert is_uneven(sides([100 * MIB] * 2, [200 * MIB] * 2, samples=32.0))


def test_what_is_unknown_is_not_held_against_it() -> None:
    assert not is_uneven(sides([900 * MIB, None], [0, 0]))
