"""What is said to have drifted, by which phase and since when."""

from __future__ import annotations

from autotune.probe.watch import drift
from autotune.probe.watch.levels import Blocks, Level

MS, MIB = 1e6, 1 << 20
START = Level(50, 10 * MS, 0.05 * MS)


def window(step, queued_ms=None, **phases_ms):
    places = {"data_wait": "train.py:7"}
    return {"step": step, "steps": 20, "phases_ms": phases_ms, "places": places, "queued_ms": queued_ms}


def blocks(*means_ms):
    made = Blocks()
    for n, mean in enumerate(means_ms):
        made.add(Level(70 + 20 * n, mean * MS, 0.05 * MS))
    return made


def test_a_run_that_is_as_it_was_has_not_drifted():
    first, now = window(50, forward=5.0, backward=5.0), window(500, forward=5.2, backward=5.1)
    assert drift.of_step(first, now, START, blocks(10, 10.2, 10.1, 10.3, 10.2)) is None


def test_a_loader_that_starves_is_named_with_its_line_and_the_step_at_which_it_began():
    first, now = window(50, data_wait=0.2, forward=4.8, backward=5.0), window(210, data_wait=9.9, forward=5, backward=5)
    found = drift.of_step(first, now, START, blocks(10, 10, 10, 10, 20, 20, 20))
    assert found["phases"] == [{"phase": "data_wait", "first_ms": 0.2, "now_ms": 9.9}]
    assert (found["since_step"], found["said_at_step"], found["is_steady"]) == (130, 230, False)
    assert found["text"] == (
        "a step takes 2.00 times as long as at step 50, since about step 130: data wait rose from 0.20 ms to 9.90 ms "
        "(mostly train.py:7)"
    )


def test_a_steady_rise_is_since_the_first_window():
    first, now = window(50, other=1.0, forward=9.0), window(250, other=6.0, forward=9.1)
    found = drift.of_step(first, now, START, blocks(*(10 + 0.5 * n for n in range(10))))
    assert found["is_steady"] and found["since_step"] == 50
    assert [one["phase"] for one in found["phases"]] == ["other"]
    assert "steadily since step 50: the script's own code rose from 1.00 ms to 6.00 ms" in found["text"]


def test_where_all_phases_slow_down_alike_it_is_the_machine():
    first, now = window(50, data_wait=0.1, forward=4.9, backward=5.0), window(250, data_wait=0.1, forward=7, backward=7)
    found = drift.of_step(first, now, START, blocks(10, 14, 14))
    assert (found["is_alike"], found["phases"]) == (True, [])
    assert "all phases alike" in found["text"]


def test_a_thread_that_waits_for_a_cpu_is_told_from_a_phase_that_grows():
    first, now = window(50, 0.1, forward=2, other=8.0), window(250, 4.0, forward=2.2, other=12.0)
    found = drift.of_step(first, now, START, blocks(10, 14, 14))
    assert (found["phases"], found["queued_ms"]) == ([], 3.9)
    assert found["text"].endswith("it waits 3.90 ms longer for a CPU, so others use the machine")
    found = drift.of_step(first, {**now, "queued_ms": 1.0}, START, blocks(10, 14, 14))
    assert [one["phase"] for one in found["phases"]] == ["other"]


def test_a_wait_for_a_cpu_that_hardly_grew_is_not_the_cause():
    first, now = window(50, 1.0, data_wait=0.1, forward=19.9), window(250, 1.02, data_wait=2.0, forward=20.1)
    found = drift.of_step(first, now, Level(50, 20 * MS, 0.05 * MS), blocks(20, 22.1, 22.1))
    assert (found["queued_ms"], [one["phase"] for one in found["phases"]]) == (None, ["data_wait"])
    shorter = window(250, 1.01, data_wait=0.2, forward=9.9)
    first = window(50, 1.0, data_wait=10.1, forward=9.9)
    found = drift.of_step(first, shorter, Level(50, 20 * MS, 0.05 * MS), blocks(20, 10.1, 10.1))
    assert (found["queued_ms"], [one["phase"] for one in found["phases"]]) == (None, ["data_wait"])
    assert "data wait fell from 10.1 ms to 0.20 ms" in found["text"]


def test_a_shorter_step_is_said_too():
    first, now = window(50, data_wait=5.0, forward=5.0), window(250, data_wait=0.5, forward=5.0)
    found = drift.of_step(first, now, START, blocks(10, 5.5, 5.5))
    assert found["phases"][0]["phase"] == "data_wait"
    assert "0.55 times as long" in found["text"] and "data wait fell from 5.00 ms to 0.50 ms" in found["text"]


def test_a_window_that_shows_nothing_claims_no_phase():
    same = window(50, forward=10.0)
    found = drift.of_step(same, window(250, forward=9.9), START, blocks(10, 14, 14))
    assert (found["is_alike"], found["phases"]) == (False, [])
    assert "no phase that changed" in found["text"]


def test_memory_that_fills_up_once_has_not_drifted_and_memory_that_rises_all_along_has():
    filled = [(50, 1000 * MIB), *((50 + 20 * n, 1500 * MIB) for n in range(1, 10))]
    rising = [(50 + 20 * n, (1000 + 50 * n) * MIB) for n in range(10)]
    assert drift.of_memory(filled) is None
    assert drift.of_memory([(step, 1000 * MIB + n) for n, (step, _) in enumerate(rising)]) is None
    found = drift.of_memory(rising)
    assert (found["what"], found["since_step"], found["first"]) == ("memory", 50, 1000.0 * MIB)
    assert found["text"] == "memory rises steadily: 1000 MiB at step 50, 1.4 GiB now, 2 MiB a step"
