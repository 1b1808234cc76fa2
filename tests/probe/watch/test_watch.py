"""When windows are measured, over runs of many thousand steps that never happened."""

from __future__ import annotations

import random
import sys

import pytest

from autotune.probe.watch import step_clock
from autotune.probe.watch import watch as watches
from autotune.probe.watch.settings import WatchSettings, of_environment

MS = 1_000_000


class Session:
    """Stands for the hooks: a window is over after so many steps, and its phases are what the test says."""

    is_attached = False

    def __init__(self):
        self.left = 0
        self.phases_ms = {"forward": 10.0}

    def attach(self, steps, step_s):
        self.left, self.steps = steps + 1, steps

    def trains_on_cuda(self):
        return False

    def result(self):
        total = sum(self.phases_ms.values())
        row = {"steps": self.steps, "step_ms": total, "phases_ms": dict(self.phases_ms), "places": {}}
        return {**row, "queued_ms": None}

    def detach(self):
        pass

    def abandon(self):
        pass


@pytest.fixture(autouse=True)
def _no_hooks_of_torch(monkeypatch):
    """No optimizer steps here, and a hook that is left would see those of other tests."""
    monkeypatch.setattr(step_clock.StepClock, "_hear_begins", lambda self: None)


class Driven:
    """A Watch whose steps take what the test says."""

    def __init__(self, folder, **settings):
        self.watch = watches.Watch(WatchSettings(folder=str(folder), prints=False, write_s=1e9, **settings))
        self.session = self.watch._session = Session()
        self.watch._write_due = sys.maxsize
        self.now = 1

    def steps(self, durations_ms):
        clock = self.watch.clock
        for duration in durations_ms:
            self.now += int(duration * MS)
            clock.steps += 1
            clock.ends.append(self.now)
            if clock.session is not None:
                self.session.left -= 1
                if not self.session.left:
                    self.watch._on_window_over()
            if clock.steps >= clock.look_at:
                self.watch._look(self.now)

    @property
    def windows(self):
        return [(window["step"], window["reason"]) for window in self.watch.windows]


@pytest.fixture
def driven(tmp_path, monkeypatch):
    monkeypatch.setattr(watches.describe, "used_bytes", lambda on_cuda: 1 << 30)
    return lambda **settings: Driven(tmp_path / "run", **settings)


def test_a_healthy_run_has_the_planned_windows_and_no_others(driven):
    draw, run = random.Random(1), driven()
    run.steps(10 + draw.gauss(0, 0.5) + 300 * (step % 100 == 0) for step in range(1, 60_001))
    assert run.windows == [(step, "planned") for step in (50, 500, 5000, 50_000)]
    assert run.watch.drift == []


def test_a_jump_is_measured_and_said_within_three_blocks(driven):
    run = driven()
    run.steps([10.0] * 1000)
    run.session.phases_ms = {"forward": 10.0, "data_wait": 5.0}
    run.steps([15.0] * 200)
    assert [reason for _, reason in run.windows] == ["planned", "planned", "moved"]
    (drifted,) = run.watch.drift
    assert 1000 < drifted["said_at_step"] <= 1000 + 3 * 20 + 50
    assert abs(drifted["since_step"] - 1000) <= 20
    assert [one["phase"] for one in drifted["phases"]] == ["data_wait"]


def test_what_was_said_keeps_its_step_and_what_has_gone_is_said_no_more(driven):
    run = driven()
    run.steps([10.0] * 400)
    run.session.phases_ms = {"forward": 10.0, "data_wait": 5.0}
    run.steps([15.0] * 200)
    (first,) = run.watch.drift
    run.steps([15.0] * 4500)
    (later,) = run.watch.drift
    assert later["said_at_step"] == first["said_at_step"] < 520
    run.session.phases_ms = {"forward": 10.0}
    run.steps([10.0] * 2000)
    assert run.watch.drift == []


def test_a_run_whose_steps_vary_for_ever_has_few_windows(driven):
    run = driven()
    for _ in range(300):
        run.steps([10.0] * 200)
        run.steps([14.0] * 200)
    assert sum(reason == "moved" for _, reason in run.windows) <= 20
    assert len(run.watch.blocks.rows) <= 240


def test_a_leak_over_a_long_run_is_steady_from_its_first_step_on(driven, monkeypatch):
    run, said = driven(), []
    monkeypatch.setattr(watches.describe, "used_bytes", lambda on_cuda: (4 << 30) + run.watch.clock.steps * 16_000)
    for _ in range(40):
        run.steps([10.0] * 5000)
        said.append([(one["what"], one["since_step"]) for one in run.watch.drift])
    run.watch._find_drift()
    (leak,) = run.watch.drift
    assert (leak["what"], leak["since_step"]) == ("memory", 50)
    assert 50_000 < leak["said_at_step"] < 50_100
    assert leak["now"] - leak["first"] == pytest.approx(199_950 * 16_000, rel=0.01)
    assert said.index([("memory", 50)]) == 10 and all(each == [("memory", 50)] for each in said[10:])


def test_steps_that_get_slower_over_a_long_run_do_so_steadily(driven):
    run = driven()
    for step in range(200_000):
        run.session.phases_ms = {"forward": 10.0, "data_wait": step / 20_000}
        run.steps([10.0 + step / 20_000])
    run.watch._find_drift()
    (drifted,) = run.watch.drift
    assert drifted["is_steady"] and drifted["since_step"] == 50
    assert 20_000 < drifted["said_at_step"] < 30_000
    assert drifted["now"] / drifted["first"] == pytest.approx(2.0, rel=0.02)


def test_a_jump_late_in_a_long_run_is_found_to_the_block(driven):
    run = driven()
    run.steps([10.0] * 100_000)
    run.session.phases_ms = {"forward": 10.0, "data_wait": 5.0}
    run.steps([15.0] * 200)
    assert abs(run.watch.drift[0]["since_step"] - 100_000) <= 20
    run.steps([15.0] * 60_000)
    run.watch._find_drift()
    assert abs(run.watch.drift[0]["since_step"] - 100_000) <= 1000


def test_memory_that_rises_is_said_at_the_next_window(driven, monkeypatch):
    run = driven()
    monkeypatch.setattr(watches.describe, "used_bytes", lambda on_cuda: (1 << 30) + run.watch.clock.steps * (1 << 20))
    run.steps([10.0] * 600)
    (drifted,) = run.watch.drift
    assert (drifted["what"], drifted["said_at_step"]) == ("memory", 551)
    assert drifted["text"].endswith("1 MiB a step")


def test_a_window_is_long_enough_for_short_steps_and_not_too_long_for_long_ones(driven):
    for step_ms, steps in ((1.0, 200), (5.0, 100), (100.0, 20), (5000.0, 8)):
        run = driven()
        run.steps([step_ms] * 50)
        assert run.session.steps == steps


def test_planned_windows_go_on_tenfold():
    settings = WatchSettings()
    assert [settings.next_at(step) for step in (0, 49, 50, 500, 4999, 5000, 50_000)] == [
        50,
        50,
        500,
        5000,
        5000,
        50_000,
        500_000,
    ]
    assert WatchSettings(at=(1,)).at == (2,)


def test_settings_of_the_environment():
    assert of_environment({"AUTOTUNE_WATCH": "quiet", "AUTOTUNE_WATCH_DIR": "/x"}).prints is False
    assert of_environment({"AUTOTUNE_WATCH": "1"}, at=(5, 7)).at == (5, 7)
    assert of_environment({}).folder is None
