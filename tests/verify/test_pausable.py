"""Which starts may take turns, and what they wait for meanwhile."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import pytest
from msgspec.structs import replace
from test_runs import RECORDING, SAMPLED

from autotune import collect
from autotune.model.derived import Derived
from autotune.model.recording import Fetch
from autotune.model.report import Step
from autotune.verify.pausable import may_be_stopped, wait_s, were_fair

ALONE = replace(RECORDING, device={"type": "cpu"}, process={"argv": ["train.py"], "group": 7, "world_size": 1})


@pytest.mark.parametrize(
    ("recordings", "may"),
    [
        ((ALONE,), True),
        ((replace(ALONE, process={"group": 7, "world_size": None}),), True),
        ((replace(ALONE, process={"group": 8, "world_size": 1}),), False),
        ((replace(ALONE, process={"world_size": 1}),), False),
        ((replace(ALONE, process={"group": 7, "world_size": 2}),), False),
        ((replace(ALONE, device={"type": "cuda"}),), False),
        ((replace(ALONE, device=None),), False),
        ((replace(ALONE, memory={"peak_reserved_bytes": 5}),), False),
        ((ALONE, ALONE), False),
    ],
)
def test_one_process_of_its_group_on_the_cpu_may_be_stopped(recordings, may: bool) -> None:
    collected = collect.Collected(Path(), recordings, "probe", 0, 5.0, 1.0, SAMPLED, pid=7)
    assert may_be_stopped(collected) == may
    assert not may_be_stopped(replace(collected, pid=None))


def fetch(wall_ms: float, cpu_ms: float, start_ns: int = 5, *, in_main: bool = False) -> Fetch:
    return Fetch(0, 1, start_ns, int(wall_ms * 1e6), int(cpu_ms * 1e6), 0, 0, 8, in_main)


@pytest.mark.parametrize(
    ("fetches", "cpu_ms", "expected"),
    [
        ((), 45.0, 0.0),
        ((), 20.0, 0.05),
        ((fetch(10, 9), fetch(10, 8)), 45.0, 0.0),
        ((fetch(10, 2), fetch(30, 2)), 45.0, 0.018),
        ((fetch(10, 9), fetch(900, 1, -1)), 45.0, 0.0),
        # 30 ms of a step pass with waiting for a worker, which is stopped as well.
        ((fetch(10, 9),), 20.0, 0.0),
        ((fetch(10, 9, in_main=True),), 20.0, 0.05),
        ((fetch(100, 2),), 20.0, 0.098),
        ((), None, None),
    ],
)
def test_what_is_waited_for_at_a_time_is_a_batch_or_else_a_step(fetches, cpu_ms, expected) -> None:
    window = replace(RECORDING.window, cpu_ns=None if cpu_ms is None else int(20 * cpu_ms * 1e6))
    derived = Derived((), (), Step(20, 50.0, 50.0, 60.0, {"data_wait": 30.0}))
    found = wait_s(replace(RECORDING, fetches=fetches, window=window), derived)
    assert found == (expected if expected is None else pytest.approx(expected))


@pytest.mark.parametrize(
    ("fetches", "cpu_ms", "queued_ms", "expected"),
    [
        ((), 20.0, 25.0, 0.0),
        ((), 20.0, 10.0, 0.05),
        ((fetch(30, 3, in_main=True),), 20.0, 25.0, 0.0),
        ((replace(fetch(100, 20), queued_ns=75_000_000),), 20.0, 0.0, 0.0),
        ((replace(fetch(100, 20), queued_ns=20_000_000),), 20.0, 0.0, 0.06),
    ],
)
def test_who_could_run_and_had_no_cpu_does_not_wait_for_anything_else(fetches, cpu_ms, queued_ms, expected) -> None:
    window = replace(RECORDING.window, cpu_ns=int(20 * cpu_ms * 1e6), queued_ns=int(20 * queued_ms * 1e6))
    derived = Derived((), (), Step(20, 50.0, 50.0, 60.0, {"data_wait": 30.0}))
    assert wait_s(replace(RECORDING, fetches=fetches, window=window), derived) == pytest.approx(expected)


@pytest.mark.parametrize(
    ("ended_by", "exit_code", "began", "is_fair"),
    [
        ("probe", -15, 0.0, True),
        # It has fewer steps than were asked for.
        ("script", 0, 0.0, True),
        ("script", 1, 0.0, False),
        ("time_limit", -9, 0.0, False),
        ("probe", -15, 1e9, False),
    ],
)
def test_fair_is_what_measured_in_its_turns_and_to_its_end(ended_by, exit_code, began, is_fair) -> None:
    collected = collect.Collected(Path(), (ALONE,), ended_by, exit_code, 5.0, 1.0, SAMPLED, pid=7)
    whole = replace(collected, ended_by="probe")
    held = SimpleNamespace(in_turns_since=lambda: began)
    assert were_fair([(whole, SimpleNamespace(in_turns_since=lambda: 0.0)), (collected, held)]) == is_fair
