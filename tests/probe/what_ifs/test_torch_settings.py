from __future__ import annotations

import os
import sys
import threading
import time

import pytest
import torch
from torch.utils.data import DataLoader, TensorDataset

from autotune.probe.what_ifs import schedule as phases
from autotune.probe.what_ifs import torch_settings


@pytest.fixture
def one_cpu(monkeypatch):
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {0}, raising=False)


@pytest.fixture
def threads(monkeypatch):
    """threads(n): the script has n threads; what sets them only notes it."""
    count = [1]
    monkeypatch.setattr(torch, "get_num_threads", lambda: count[0])
    monkeypatch.setattr(torch, "set_num_threads", lambda value: count.__setitem__(0, value))

    def have(value):
        count[0] = value
        return count

    return have


@pytest.mark.parametrize(("now", "cpus", "tried"), [(1, 1, []), (1, 4, [4]), (4, 4, [1]), (2, 4, [1, 4]), (2, 1, [1])])
def test_one_thread_and_as_many_as_there_are_cpus(probed, threads, monkeypatch, now, cpus, tried):
    threads(now)
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(cpus)), raising=False)
    assert torch_settings.choices(probed) == [{"threads": count} for count in tried]


@pytest.mark.parametrize(("fused", "choice"), [(None, [{"fused": True}]), (False, [{"fused": True}]), (True, [])])
def test_fused_updates_are_tried_where_there_are_some_to_use(probed, threads, one_cpu, fused, choice):
    optimizer = torch.optim.AdamW([torch.nn.Parameter(torch.ones(2))], fused=fused)
    assert torch_settings.choices(probed) == choice
    del optimizer


def test_nothing_is_tried_on_cuda(probed, monkeypatch):
    monkeypatch.setattr(probed, "trains_on_cuda", lambda: True)
    assert torch_settings.choices(probed) == []


def test_threads_are_taken_back(probed, threads):
    count = threads(3)
    undo = torch_settings.apply(probed, {"threads": 1})
    assert count == [1]
    undo()
    assert count == [3]


@pytest.fixture
def deterministic(monkeypatch):
    """deterministic(algorithms, of_cudnn): what the script asked for; taken back after the test."""
    cudnn = torch.backends.cudnn
    before = torch.are_deterministic_algorithms_enabled(), cudnn.deterministic

    def ask(algorithms, of_cudnn):
        torch.use_deterministic_algorithms(algorithms, warn_only=True)
        cudnn.deterministic = of_cudnn

    yield ask
    torch.use_deterministic_algorithms(before[0])
    cudnn.deterministic = before[1]


@pytest.mark.parametrize("is_on_cuda", [True, False])
@pytest.mark.parametrize("asked", [(True, False), (False, True), (False, False)])
def test_determinism_is_left_off_where_it_is_on(
    probed, threads, one_cpu, monkeypatch, deterministic, asked, is_on_cuda
):
    deterministic(*asked)
    monkeypatch.setattr(probed, "trains_on_cuda", lambda: is_on_cuda)
    # What cuDNN is asked for changes nothing on a CPU.
    assert torch_settings.choices(probed) == [{"deterministic": False}] * (asked[0] or (asked[1] and is_on_cuda))


@pytest.mark.parametrize("asked", [(True, False), (False, True), (True, True)])
def test_determinism_is_taken_back(probed, deterministic, asked):
    deterministic(*asked)
    only_warns = torch.is_deterministic_algorithms_warn_only_enabled()
    undo = torch_settings.apply(probed, {"deterministic": False})
    assert not torch.are_deterministic_algorithms_enabled() and not torch.backends.cudnn.deterministic
    undo()
    assert (torch.are_deterministic_algorithms_enabled(), torch.backends.cudnn.deterministic) == asked
    assert torch.is_deterministic_algorithms_warn_only_enabled() is only_warns


@pytest.mark.parametrize("checks_nan", [True, False])
def test_anomaly_detection_is_left_off_and_taken_back(probed, threads, one_cpu, checks_nan):
    torch.set_anomaly_enabled(True, checks_nan)
    try:
        assert torch_settings.choices(probed) == [{"anomaly": False}]
        undo = torch_settings.apply(probed, {"anomaly": False})
        assert not torch.is_anomaly_enabled()
        undo()
        assert (torch.is_anomaly_enabled(), torch.is_anomaly_check_nan_enabled()) == (True, checks_nan)
    finally:
        torch.set_anomaly_enabled(False)


@pytest.fixture
def tracker():
    """A memory tracker of the HF Trainer that is at work."""
    from transformers.trainer_utils import TrainerMemoryTracker

    tracker = TrainerMemoryTracker()
    tracker.peak_monitoring, tracker.cur_stage = True, "train"
    threading.Thread(target=tracker.peak_monitor_func, daemon=True).start()
    yield tracker
    tracker.peak_monitoring = False


def monitors():
    names = [getattr(getattr(thread, "_target", None), "__name__", "") for thread in threading.enumerate()]
    return names.count("peak_monitor_func")


def ends(condition, limit_s=20.0):
    until = time.monotonic() + limit_s
    while not condition() and time.monotonic() < until:
        time.sleep(0.01)
    return condition()


def test_tracing_of_memory_is_left_off_and_taken_back(probed, threads, one_cpu, tracker):
    assert torch_settings.choices(probed) == [{"memory_tracing": False}]
    undo = torch_settings.apply(probed, {"memory_tracing": False})
    assert ends(lambda: monitors() == 0)
    assert torch_settings.choices(probed) == []
    undo()
    assert monitors() == 1


def test_a_tracing_that_ended_meanwhile_is_not_taken_up_again(probed, tracker):
    undo = torch_settings.apply(probed, {"memory_tracing": False})
    tracker.cur_stage = None
    undo()
    assert ends(lambda: monitors() == 0)


def test_a_profiler_of_the_window_is_stopped_last(probed, threads, one_cpu):
    torch.set_anomaly_enabled(True)
    try:
        probed.window.warmup, probed.window._profiled = 1, [True] * 3
        with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]):
            assert torch_settings.choices(probed) == [{"anomaly": False}, {"profiler": False}]
    finally:
        torch.set_anomaly_enabled(False)


@pytest.mark.parametrize("records_calls", [True, False])
def test_a_profiler_outside_the_window_or_of_calls_is_not_stopped(probed, threads, one_cpu, records_calls):
    probed.window.warmup, probed.window._profiled = 0, [records_calls] * 3
    before = sys.getprofile()
    sys.setprofile((lambda *_: None) if records_calls else None)
    try:
        assert torch_settings.choices(probed) == []
    finally:
        sys.setprofile(before)


@pytest.mark.parametrize("rests", [False, True])
def test_a_stopped_profiler_stays_so_whatever_its_schedule(probed, rests):
    step = torch.profiler.profile.step
    schedule = torch.profiler.schedule(wait=2 if rests else 0, warmup=1, active=2)
    profiler = torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU], schedule=schedule)
    profiler.start()
    profiler.step()
    undo = torch_settings.apply(probed, {"profiler": False})
    for _ in range(4):
        torch.ones(2).sum()
        profiler.step()
        assert not torch.autograd._profiler_enabled()
    undo()
    assert torch.profiler.profile.step is step


@pytest.mark.parametrize(("name", "tried"), [("advanced", True), ("simple", False), (None, False)])
def test_the_profiler_of_lightning_is_left_off_and_taken_back(probed, threads, one_cpu, tmp_path, name, tried):
    pl = pytest.importorskip("lightning.pytorch")
    trainer = pl.Trainer(profiler=name, logger=False, enable_checkpointing=False, default_root_dir=tmp_path)
    probed.observed.note("lightning", trainer)
    assert torch_settings.choices(probed) == [{"profiler": False}] * tried
    if tried:
        undo = torch_settings.apply(probed, {"profiler": False})
        with trainer.profiler.profile("forward"):
            pass
        assert not trainer.profiler.profiled_actions
        undo()
        with trainer.profiler.profile("forward"):
            pass
        assert list(trainer.profiler.profiled_actions) == ["forward"]


def test_what_the_script_switches_on_again_in_each_step_is_not_left_off(probed):
    undo = torch_settings.apply(probed, {"anomaly": False})
    assert not torch_settings.is_undone(probed, {"anomaly": False})
    with pytest.warns(UserWarning, match="Anomaly Detection"), torch.autograd.detect_anomaly():
        assert torch_settings.is_undone(probed, {"anomaly": False})
        assert not torch_settings.is_undone(probed, {"threads": 1})
    undo()
    torch.set_anomaly_enabled(False)


def test_fused_is_taken_back(probed):
    optimizer = torch.optim.AdamW([torch.nn.Parameter(torch.ones(2))], foreach=True)
    undo = torch_settings.apply(probed, {"fused": True})
    assert (optimizer.param_groups[0]["foreach"], optimizer.param_groups[0]["fused"]) == (False, True)
    undo()
    assert (optimizer.param_groups[0]["foreach"], optimizer.param_groups[0]["fused"]) == (True, None)


def test_the_recording_says_what_the_script_had(attach, left, monkeypatch, threads, one_cpu):
    monkeypatch.setattr(phases, "PHASE_S", 0.0)
    monkeypatch.setattr(phases, "SHORT_S", 0.0)
    session = attach(steps=3, warmup=1)
    session.wait_share = lambda: 0.0
    model = torch.nn.Linear(2, 1)
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.1)
    fused = []
    with pytest.raises(left):
        for (x,) in DataLoader(TensorDataset(torch.ones(4096, 2)), batch_size=4):
            model(x).sum().backward()
            optimizer.step()
            fused.append(optimizer.param_groups[0]["fused"])
    row = session.what_ifs[-1]
    assert (row["name"], row["arguments"], row["outcome"]) == ("replay_changed", {"fused": True}, "completed")
    assert len(row["result"]["update_ns"]) == len(row["result"]["step_ns"]) == phases.LEAST_IN_ROUND
    assert fused[-phases.LEAST_IN_ROUND :] == [True] * phases.LEAST_IN_ROUND
    assert fused[: 4 + 5] == [None] * 9
    assert session.described_optimizers()[0]["arguments"].get("fused") is None
