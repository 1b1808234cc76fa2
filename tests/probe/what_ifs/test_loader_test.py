from __future__ import annotations

from types import SimpleNamespace

import pytest
import torch
from torch.utils.data import BatchSampler, DataLoader, SequentialSampler, TensorDataset

from autotune.probe.what_ifs import loader_test
from autotune.probe.what_ifs.loader_test import _copy, _is_enough, _take, step_result


def event(kind, length, start=1000):
    return (kind, start, start + length, -1, 0)


@pytest.mark.parametrize(
    ("wall", "events", "step", "micro"),
    [
        pytest.param(100, [event("forward", 40), event("backward", 50)], 100, 100, id="plain"),
        pytest.param(100, [event("backward", 50), event("optimizer", 10)], 100, 90, id="update is no micro-batch"),
        pytest.param(
            100, [event("backward", 20), event("backward", 20), event("optimizer", 10)], 100, 45, id="accumulation"
        ),
        pytest.param(100, [event("fetch", 30), event("backward", 50)], 70, 70, id="fetch is taken off"),
        pytest.param(
            100,
            [
                event(kind, 5, 1000 + 5 * place)
                for place, kind in enumerate(("iter", "checkpoint", "evaluation", "logging", "serialise", "backward"))
            ],
            75,
            75,
            id="interruptions are taken off",
        ),
        pytest.param(
            100,
            [event("fetch", 5, 1010), event("logging", 10, 1020), event("evaluation", 40), event("backward", 5, 1050)],
            60,
            60,
            id="what an evaluation does is taken off once",
        ),
    ],
)
def test_a_replayed_step(wall, events, step, micro):
    updates = [sum(end - start for kind, start, end, _, _ in events if kind == "optimizer")]
    assert step_result("replay", [(wall, events)]) == {
        "micro_ns": [micro] if any(kind == "backward" for kind, *_ in events) else [],
        "step_ns": [step],
        "update_ns": updates,
    }
    assert step_result("replay_changed", [(wall, events)])["step_ns"] == [step]
    assert step_result("micro_batch", [(wall, events)]) == {"micro_ns": [micro]}


def test_what_a_closure_does_is_no_update():
    events = [event("backward", 30, 1010), event("closure", 50, 1005), event("optimizer", 70), event("fetch", 10, 990)]
    assert step_result("replay", [(100, events)]) == {"micro_ns": [70], "step_ns": [90], "update_ns": [20]}
    assert step_result("micro_batch", [(100, events)]) == {"micro_ns": [70]}


def test_collecting_garbage_is_no_cost_of_a_micro_batch():
    events = [event("backward", 30, 1000), event("gc", 40, 1030), event("fetch", 10, 1060)]
    assert step_result("micro_batch", [(100, events)]) == {"micro_ns": [60]}
    assert step_result("replay", [(100, events)]) == {"micro_ns": [60], "step_ns": [90], "update_ns": [0]}


def test_what_happens_inside_a_closure_is_taken_off_once():
    events = [event("backward", 10, 1010), event("closure", 60, 1005), event("optimizer", 70), event("gc", 40, 1020)]
    assert step_result("micro_batch", [(100, events)]) == {"micro_ns": [50]}


def test_garbage_that_is_collected_in_an_update_is_taken_off_once():
    events = [event("backward", 30, 1000), event("optimizer", 50, 1040), event("gc", 40, 1045)]
    assert step_result("micro_batch", [(100, events)]) == {"micro_ns": [50]}


def test_a_step_without_a_backward_says_nothing_of_a_micro_batch():
    spans = [(100, [event("optimizer", 10)]), (80, [event("backward", 10)])]
    assert step_result("micro_batch", spans) == {"micro_ns": [80]}
    assert step_result("replay", spans) == {
        "micro_ns": [80],
        "step_ns": [100, 80],
        "update_ns": [10, 0],
    }


@pytest.mark.parametrize(
    ("batches", "elapsed_s", "enough"),
    [(31, 1.0, False), (32, 0.31, True), (100, 0.29, False), (256, 0.0, True), (1, 2.01, True)],
)
def test_a_loader_alone_is_timed_for_so_long(batches, elapsed_s, enough):
    assert _is_enough(batches, round(elapsed_s * 1e9)) is enough


class Batches:
    """So many batches. Time goes on by 10 at each reading, and by 5000 when an iterator over them ends."""

    def __init__(self, monkeypatch, count):
        self.now, self.count = 0, count
        monkeypatch.setattr(loader_test.clock, "now", self.read)
        monkeypatch.setattr(loader_test.clock, "thread_cpu", lambda: 0)

    prefetch_factor = 2

    def __len__(self):
        return self.count

    def read(self):
        self.now += 10
        return self.now

    def __iter__(self):
        try:
            yield from range(self.count)
        finally:
            self.now += 5000


@pytest.mark.parametrize(
    ("count", "workers", "paced", "ready"),
    [(3, 1, 2, 0), (30, 0, 20, 0), (30, 1, 20, 8), (1000, 2, 256, 8)],
    ids=["too few for both", "no workers hand over", "a short epoch", "a long one"],
)
def test_pace_hand_over_and_end_are_timed_of_any_epoch(monkeypatch, count, workers, paced, ready):
    result = _take(Batches(monkeypatch, count), workers)
    assert len(result["batch_ns"]) == paced
    assert result["ready_ns"] == [10] * ready
    assert sum(result["batch_ns"]) < 5000 < result["end_ns"] < 5100
    assert result["was_idle"] is (count == 3 or ready > 0)


class Endless(Batches):
    """Nobody knows how many there are."""

    def __len__(self):
        raise TypeError


def test_an_epoch_that_is_over_among_ready_batches_has_no_end_to_time(monkeypatch):
    monkeypatch.setattr(loader_test, "MOST_BATCHES", 20)
    assert "end_ns" not in _take(Endless(monkeypatch, 25), 1)
    assert _take(Endless(monkeypatch, 40), 1)["end_ns"] > 5000


def test_many_workers_are_still_busy_after_the_ready_batches(monkeypatch):
    assert [_take(Batches(monkeypatch, 100), workers)["was_idle"] for workers in (4, 5)] == [True, False]


def test_waiting_for_slow_batches_to_be_ready_would_take_too_long(monkeypatch):
    monkeypatch.setattr(loader_test, "READY_S", 100e-9)
    assert _take(Batches(monkeypatch, 100), 1)["ready_ns"] == []


DATA = TensorDataset(torch.arange(12.0))


@pytest.mark.parametrize(
    "arguments",
    [
        {"batch_size": 4},
        {"batch_sampler": BatchSampler(SequentialSampler(DATA), 4, False)},
        {"sampler": BatchSampler(SequentialSampler(DATA), 4, False), "batch_size": None},
    ],
    ids=["batch size", "batch sampler", "batches are samples"],
)
def test_a_copy_of_a_loader_gives_the_same_batches(arguments):
    batches = [[0.0, 1.0, 2.0, 3.0], [4.0, 5.0, 6.0, 7.0], [8.0, 9.0, 10.0, 11.0]]
    assert [batch[0].tolist() for batch in _copy(DataLoader(DATA, **arguments), 0)] == batches


@pytest.mark.parametrize(("free", "fits"), [(192, False), (193, True)])
def test_a_state_that_would_take_half_of_the_free_disk_is_not_written(probed, monkeypatch, free, fits):
    model = torch.nn.Linear(11, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    model(torch.ones(1, 11)).sum().backward()
    optimizer.step()
    assert (probed.described_models()[0]["param_bytes"], probed.described_optimizers()[0]["state_bytes"]["cpu"]) == (
        48,
        48,
    )
    monkeypatch.setattr(loader_test.os, "statvfs", lambda _: SimpleNamespace(f_bavail=free, f_frsize=1))
    assert loader_test.has_room(probed) is fits


@pytest.mark.parametrize(("long_ns", "asked"), [(10**9, True), (0, False)])
def test_what_fills_a_batch_is_asked_of_short_ones(probed, monkeypatch, long_ns, asked):
    loader = DataLoader(DATA, batch_size=4)
    monkeypatch.setattr(loader_test, "LONG_NS", long_ns)
    outcome, result = loader_test.load(probed, probed.loaders[0], 0)
    assert (outcome, "samples" in result, len(result["batch_ns"])) == ("completed", asked, 2)
    del loader


def test_what_was_timed_stays_where_the_dataset_bears_no_second_look(probed, monkeypatch):
    loader = DataLoader(DATA, batch_size=4)
    monkeypatch.setattr(loader_test.cacheable_items, "items", lambda _: 1 / 0)
    outcome, result = loader_test.load(probed, probed.loaders[0], 0)
    assert (outcome, len(result["batch_ns"])) == ("completed", 2)
    assert "samples" in result and "items" not in result
    del loader
