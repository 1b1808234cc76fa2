from __future__ import annotations

import pytest
from msgspec.structs import replace
from test_runs import RECORDING

from autotune.model.recording import Event, Fetch, RecordedWindow
from autotune.model.verified import AFTER, RunResult
from autotune.verify.steady_state import steady_state_ms

WINDOW = RecordedWindow(3, 40, 1000, 2000, (), "optimizer", "steps")
START = RunResult(AFTER, 2.0, 40, 3, 4.0)


def recording(came: int, prepared: int, workers: int = 2, window: RecordedWindow | None = WINDOW):
    """So many batches came to the training process in the window, and were prepared in it."""
    events = [Event("fetch", 1000 + at, 1001 + at, 0, 1) for at in range(came)]
    events += [Event("fetch", 10, 20, 0, 1), Event("fetch", 1990, 2000, 0, 0), Event("iter", 1100, 1200)]
    fetches = [
        Fetch(0, at % workers if workers else 9, 1000 + at, 1, 1, 0, 0, 8, not workers) for at in range(prepared)
    ]
    fetches += [Fetch(0, worker, 0, 1, 1, 0, 0, 8, False) for worker in range(workers)]
    return replace(RECORDING, events=tuple(events), fetches=tuple(fetches), window=window)


def test_workers_that_kept_up_set_the_pace() -> None:
    assert steady_state_ms(START, recording(40, 40)) == START
    assert steady_state_ms(START, recording(40, 38)) == START


def test_batches_that_were_ready_before_are_no_pace() -> None:
    found = steady_state_ms(START, recording(40, 8))
    assert found.step_ms == pytest.approx(2.0 * 40 / 10)
    assert (found.steps, found.wall_s) == (START.steps, START.wall_s)


def test_without_workers_every_step_waits_for_its_batches() -> None:
    assert steady_state_ms(START, recording(40, 5, workers=0)) == START


def test_without_a_window_there_is_nothing_to_correct() -> None:
    assert steady_state_ms(START, recording(40, 5, window=None)) == START


def test_at_the_end_of_the_data_workers_have_nothing_left_to_prepare() -> None:
    assert steady_state_ms(START, recording(40, 5, window=replace(WINDOW, ended_by="script_ended"))) == START
