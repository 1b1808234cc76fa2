from __future__ import annotations

import os
import sys

import pytest
import torch
from torch.utils.data import DataLoader, TensorDataset

from autotune.probe import ending, ranks
from autotune.probe.what_ifs import schedule, what_if_probes

ROUNDS = schedule.MOST_ROUNDS


class Model(torch.nn.Module):
    """Linear; `limit` is the largest batch that it takes, `error` what it says of a larger one."""

    def __init__(self, limit=10**6, error=None):
        super().__init__()
        self.layer = torch.nn.Linear(2, 1)
        self.limit, self.error = limit, error
        self.sizes = []

    def forward(self, x):
        self.sizes.append(len(x))
        if len(x) > self.limit:
            raise self.error
        return self.layer(x)


LOOKS = schedule.LOOKS


@pytest.fixture(autouse=True)
def short_phases(monkeypatch):
    monkeypatch.setattr(schedule, "PHASE_S", 0.0)
    monkeypatch.setattr(schedule, "SHORT_S", 0.0)
    monkeypatch.setattr(schedule.torch_settings, "choices", lambda _: [])
    monkeypatch.setattr(schedule.needless_work, "can_be_watched", lambda _: False)
    monkeypatch.setattr(sys, "excepthook", sys.excepthook)


@pytest.fixture
def run(attach, left):
    """run(model, batch_size=.., **request): trains until the probe leaves; the session."""

    def train(model, batch_size=4, accumulate=1, **fields):
        session = attach(steps=4, warmup=1, **fields)
        session.wait_share = lambda: 0.0
        loader = DataLoader(TensorDataset(torch.ones(4096, 2)), batch_size=batch_size)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        with pytest.raises(left):
            for number, (x,) in enumerate(loader, 1):
                model(x).sum().backward()
                if number % accumulate == 0:
                    optimizer.step()
                    optimizer.zero_grad()
            raise AssertionError("the data ended before the probe left")
        return session

    return train


def outcomes(session):
    return [(row["name"], row["arguments"].get("factor"), row["outcome"]) for row in session.what_ifs]


def test_the_phases_in_their_order(run):
    model = Model()
    session = run(model)
    assert outcomes(session) == [
        ("replay", None, "completed"),
        ("serialise", None, "completed"),
        ("micro_batch", 0.5, "completed"),
        *ROUNDS * [("micro_batch", 1, "completed"), ("micro_batch", 2, "completed")],
    ]
    replay, saved, half, same, double, *_ = (row["result"] for row in session.what_ifs)
    assert len(replay["step_ns"]) == len(replay["micro_ns"]) == schedule.LEAST_STEPS
    assert saved["bytes"] > 0
    assert (half["samples"], same["samples"], double["samples"]) == (2.0, 4.0, 8.0)
    assert (same["tokens"], double["tokens"]) == (None, None)
    assert min(replay["step_ns"] + same["micro_ns"] + double["micro_ns"]) > 0
    assert model.sizes == [4] * 5 + [4] * 5 + [2] * 5 + ROUNDS * ([4] * 4 + [8] * 4)
    assert session.ended


def test_a_replay_changes_no_kept_batch(run):
    class Greedy(Model):
        def forward(self, x):
            self.sizes.append(float(x[0, 0]))
            return self.layer(x.mul_(2))

    model = Greedy()
    run(model)
    assert model.sizes == [1.0] * 5 + [2.0] * (5 + 5 + 4 * 2 * ROUNDS)


def test_no_what_ifs_when_not_asked(run):
    session = run(Model(), what_ifs=False)
    assert session.what_ifs == []
    assert session.window.summary(0)["steps"] == 4


@pytest.mark.parametrize(
    ("error", "outcome"),
    [
        (ValueError("too large"), "failed"),
        (RuntimeError("DefaultCPUAllocator: can't allocate memory: you tried to allocate 8 bytes"), "out_of_memory"),
    ],
)
def test_a_batch_that_the_model_refuses_is_a_failed_what_if_and_the_end(run, error, outcome):
    session = run(Model(limit=4, error=error))
    assert outcomes(session)[-2:] == [("micro_batch", 1, "completed"), ("micro_batch", 2, outcome)]
    assert session.what_ifs[-1]["result"] == {}


def slow(monkeypatch, step_s):
    monkeypatch.setattr(schedule, "PHASE_S", 1.5)
    monkeypatch.setattr(what_if_probes.WhatIfProbes, "_mean_s", lambda _: step_s)


@pytest.mark.parametrize(
    ("step_s", "sizes"),
    [(0.1, [0.5, 1, 2, 1, 2, 1, 2]), (0.8, [0.5, 1, 2, 1, 2]), (1.4, [0.5, 2]), (100.0, [0.5, 2])],
)
def test_sizes_take_turns_as_often_as_there_is_time_for(run, monkeypatch, step_s, sizes):
    slow(monkeypatch, step_s)
    assert [factor for name, factor, _ in outcomes(run(Model())) if name == "micro_batch"] == sizes


def test_what_a_plan_takes_holds_the_loader_alone_and_larger_batches():
    plan = [("replay", {}), ("loader_alone", {}), ("serialise", {}), ("micro_batch", {"factor": 2})]
    # Three steps and two thrown away; a size in turns: two and two.
    assert schedule._expected_s(plan, 1.0, 2) == 5 + schedule.loader_test.LOADER_S + 2 * 4


@pytest.mark.parametrize(("step_s", "steps"), [(0.001, 250), (0.01, 25), (0.05, 18), (0.1, 15), (1.0, 3)])
def test_steps_of_a_phase(monkeypatch, step_s, steps):
    monkeypatch.setattr(schedule, "PHASE_S", 1.5)
    monkeypatch.setattr(schedule, "SHORT_S", 0.25)
    assert schedule.steps(("replay", {}), step_s, 3) == steps
    assert schedule.steps(("replay_changed", {"profiler": False}), step_s, 3) == steps
    assert schedule.steps(("micro_batch", {"factor": 0.5}), step_s, 3) == steps
    assert schedule.steps(("micro_batch", {"factor": 2}), step_s, 3) == max(2, steps // 3)


def test_changed_settings_take_turns_with_none_and_the_profiler_is_stopped_last(run, monkeypatch):
    choices = [{"threads": torch.get_num_threads()}, {"profiler": False}]
    monkeypatch.setattr(schedule.torch_settings, "choices", lambda _: choices)
    monkeypatch.setattr(schedule.torch_settings, "apply", lambda *_: None)
    rows = [row for row in run(Model()).what_ifs if row["name"] == "replay_changed"]
    assert [row["arguments"] for row in rows] == ROUNDS * [{}, choices[0]] + [choices[1]]


def test_nothing_takes_turns_with_a_profiler_alone(run, monkeypatch):
    monkeypatch.setattr(schedule.torch_settings, "choices", lambda _: [{"profiler": False}])
    monkeypatch.setattr(schedule.torch_settings, "apply", lambda *_: None)
    rows = [row for row in run(Model()).what_ifs if row["name"] == "replay_changed"]
    assert [row["arguments"] for row in rows] == [{"profiler": False}]


def test_a_round_has_its_share_of_the_steps_of_another_phase(run, monkeypatch):
    monkeypatch.setattr(schedule, "PHASE_S", 60.0)
    monkeypatch.setattr(schedule, "SHORT_S", 0.0)
    rows = run(Model()).what_ifs
    assert len(rows[0]["result"]["step_ns"]) == schedule.MOST_STEPS
    tries = [len(row["result"]["micro_ns"]) for row in rows if row["name"] == "micro_batch"]
    assert tries == [schedule.MOST_STEPS] + 2 * ROUNDS * [schedule.MOST_STEPS // ROUNDS]


def test_what_breaks_outside_the_hooks_ends_without_the_users_traceback(run, left):
    session = run(Model())
    with pytest.raises(left):
        sys.excepthook(ValueError, ValueError("loop"), None)
    assert session.ended


def test_a_batch_of_one_sample_is_doubled_and_last_of_all_doubled_again(run):
    model = Model()
    session = run(model, batch_size=1)
    sizes = [row for row in outcomes(session) if row[0] == "micro_batch"]
    assert [factor for _, factor, _ in sizes] == ROUNDS * [1, 2] + ROUNDS * [1, 4]
    assert outcomes(session)[-1] == ("micro_batch", 4, "completed")
    assert set(model.sizes) == {1, 2, 4}


def test_without_a_loader_the_script_goes_on_with_its_own_batches_under_other_settings(attach, left, monkeypatch):
    session = attach(steps=4, warmup=1)
    monkeypatch.setattr(schedule.torch_settings, "choices", lambda _: [{"threads": torch.get_num_threads()}])
    model = Model()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    with pytest.raises(left):
        for number in range(4096):
            model(torch.full((4, 2), float(number))).sum().backward()
            optimizer.step()
    assert [row["name"] for row in session.what_ifs] == ["serialise"] + 2 * ROUNDS * ["replay_changed"]
    assert len(session.what_ifs[-1]["result"]["step_ns"]) == schedule.LEAST_IN_ROUND


def test_with_accumulation_a_micro_batch_is_one_backward(run):
    session = run(Model(), accumulate=4)
    steps = session.what_ifs[0]["result"]["step_ns"]
    assert len(steps) == schedule.LEAST_STEPS
    assert len(session.what_ifs[-1]["result"]["micro_ns"]) == schedule.LEAST_IN_ROUND


def test_without_a_loader_the_state_is_serialised_and_that_is_all(attach, left):
    session = attach(steps=3, warmup=1)
    model = Model()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    with pytest.raises(left):
        for _ in range(100):
            model(torch.ones(4, 2)).sum().backward()
            optimizer.step()
    assert outcomes(session) == [("serialise", None, "completed")]
    assert len(model.sizes) == 4


def test_a_script_that_saves_is_not_asked_to_serialise(attach, left, tmp_path):
    session = attach(steps=3, warmup=1)
    model = Model()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    with pytest.raises(left):
        for _ in range(100):
            torch.save(model.state_dict(), tmp_path / "a.pt")
            model(torch.ones(4, 2)).sum().backward()
            optimizer.step()
    assert session.what_ifs == []


def test_a_starving_loop_has_its_loader_measured_alone(attach, left, monkeypatch):
    session = attach(steps=4, warmup=1)
    monkeypatch.setattr(session, "wait_share", lambda: 0.5)
    monkeypatch.setattr(schedule, "worker_counts", lambda _: [0])
    model = Model()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    with pytest.raises(left):
        for (x,) in DataLoader(TensorDataset(torch.ones(4096, 2)), batch_size=4):
            model(x).sum().backward()
            optimizer.step()
    row = session.what_ifs[1]
    assert row["result"].get("error") is None
    assert (row["name"], row["outcome"], row["arguments"]) == (
        "loader_alone",
        "completed",
        {"num_workers": 0, "loader": 0},
    )
    assert 0 < len(row["result"]["batch_ns"]) <= 256
    assert row["result"]["cpu_ns"] > 0
    assert row["result"]["end_ns"] >= 0
    assert len(session.loaders) == 1, "the copy of the loader is no loader of the script"


@pytest.mark.parametrize(
    ("share", "workers", "cpus", "took", "counts"),
    [
        (0.01, 0, 8, 0.0, []),
        (0.5, 0, 1, 0.0, [0, 1]),
        (0.5, 0, 2, 0.0, [0, 1, 2]),
        (0.5, 0, 6, 0.0, [0, 1, 2, 4]),
        (0.5, 0, 64, 0.0, [0, 1, 2, 4, 8]),
        (0.01, 2, 2, 0.19, []),
        (0.01, 2, 2, 0.21, [0]),
        (0.01, 2, 1, 0.0, [0, 1]),
    ],
)
def test_worker_counts_fit_the_processors(probed, monkeypatch, share, workers, cpus, took, counts):
    """`took`: CPU seconds of the workers in a window of one second."""
    row = (0, 1, 500_000_000, 10, int(took * 1e9), 0, 0, 4, False, None)
    monkeypatch.setattr(schedule.fetches, "of_workers", lambda _: [row, (0, 1, 2_000_000_000, *row[3:])])
    monkeypatch.setattr(probed.window, "span", lambda: (0, 1_000_000_000))
    loader = DataLoader(TensorDataset(torch.ones(4, 2)), num_workers=workers)
    monkeypatch.setattr(probed, "wait_share", lambda: share)
    monkeypatch.setattr(probed, "train_loader", lambda: 0)
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(cpus)))
    assert schedule.worker_counts(probed) == counts
    del loader


def test_padded_batches_are_tried_at_half_their_width(attach, left):
    session = attach(steps=4, warmup=1)
    session.wait_share = lambda: 0.0
    ids = torch.ones(400, 9, dtype=torch.int64)
    ids[:, 6:] = 0
    embedding, widths = torch.nn.Embedding(2, 3, padding_idx=0), []
    optimizer = torch.optim.SGD(embedding.parameters(), lr=0.1)
    with pytest.raises(left):
        for (x,) in DataLoader(TensorDataset(ids), batch_size=4):
            widths.append(x.shape[1])
            embedding(x).sum().backward()
            optimizer.step()
    row = session.what_ifs[-1]
    assert (row["name"], row["outcome"], row["arguments"]) == ("narrow_batch", "completed", {})
    assert (row["result"]["samples"], row["result"]["tokens"]) == (4.0, 16.0)
    assert widths == [9] * 5 + [9] * 5 + [9] * 5 + [9] * 4 * 2 * ROUNDS + [4] * 5


def test_a_script_that_ends_inside_a_phase_keeps_what_it_brought(attach):
    session = attach(steps=4, warmup=1, what_ifs=True)
    model = Model()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    loader = DataLoader(TensorDataset(torch.ones(4096, 2)), batch_size=4)
    for number, (x,) in enumerate(loader, 1):
        model(x).sum().backward()
        optimizer.step()
        if number == 5 + 4:
            break
    assert session.plan.current == "replay"
    ending.at_exit(session)
    (row,) = session.what_ifs
    assert (row["name"], row["outcome"], len(row["result"]["step_ns"])) == ("replay", "completed", 2)
    assert not session.plan.is_active


def test_phases_have_a_time_limit(attach, left, monkeypatch):
    session = attach(steps=3, warmup=1)
    session.request["what_if_limit_s"] = 0
    session.sampler.stop()  # it watches the limit, too
    model = Model()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    with pytest.raises(left):
        for (x,) in DataLoader(TensorDataset(torch.ones(4096, 2)), batch_size=4):
            model(x).sum().backward()
            optimizer.step()
    assert session.what_ifs == []


def test_without_a_window_nothing_is_asked(probed):
    probed.window.steps_by, probed.trains_on_cuda = "optimizer", lambda: True
    probed.window.close(0, "time_limit")
    assert schedule.choose(probed, None, 0.1)[1] == []


def test_batches_of_a_loader_that_is_not_known_are_not_kept(attach, left):
    session = attach(steps=4, warmup=1)
    session.wait_share = lambda: 0.5
    model = Model()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    iterator = iter(DataLoader(TensorDataset(torch.ones(4096, 2)), batch_size=4))
    iterator._autotune_id = -1  # as where a library's loader makes its own
    with pytest.raises(left):
        for (x,) in iterator:
            model(x).sum().backward()
            optimizer.step()
    assert outcomes(session) == [("serialise", None, "completed")]


def test_what_another_loader_takes_is_a_wait_of_the_replayed_step(attach, left):
    session = attach(steps=4, warmup=1)
    session.wait_share = lambda: 0.0
    first, last = (DataLoader(TensorDataset(torch.ones(4096, 2)), batch_size=4) for _ in range(2))
    model = Model()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    with pytest.raises(left):
        for (x,), (y,) in zip(first, last, strict=True):
            model(x + y[: len(x)].mean()).sum().backward()
            optimizer.step()
    assert session.train_loader() == 1
    later = [event[3:] for event in session.recorder.events if event[0] == "fetch" and event[1] > session.window.end]
    assert set(later) == {(0, 1), (1, 1)}


def test_steps_are_timed_by_the_devices_clock_where_there_is_one(run, monkeypatch):
    monkeypatch.setattr(what_if_probes.device_clock, "stop", lambda recorder: [(0, 5), (10**19, 5)])
    (replay, *_) = (row["result"] for row in run(Model()).what_ifs)
    assert set(replay["step_ns"]) == set(replay["micro_ns"]) == {0}, "a device that did nothing meanwhile"


def test_each_training_phase_has_a_clock_of_its_own_on_cuda(run, monkeypatch):
    started = []
    monkeypatch.setattr(what_if_probes.device_clock, "start", lambda recorder, moment: started.append(moment))
    on_cuda = []
    monkeypatch.setattr(schedule, "_looks", lambda session, mean_s: [])
    native = what_if_probes.WhatIfProbes.begin

    def begin(plan):
        plan._session.trains_on_cuda = lambda: on_cuda.append(1) or True
        native(plan)

    monkeypatch.setattr(what_if_probes.WhatIfProbes, "begin", begin)
    session = run(Model())
    trained = [row for row in session.what_ifs if row["name"] in what_if_probes.TRAINING]
    assert len(started) == len(trained) > 3


AS_IS, ALONE = ("replay_changed", {}), ("replay_changed", {"averaging": False})


@pytest.mark.parametrize(
    ("on_cuda", "has_ddp", "ended_by", "phases"),
    [
        (True, True, "steps", [("profile", {})]),
        (False, True, "steps", [AS_IS, ALONE, AS_IS, ALONE]),
        (False, False, "steps", []),
        (False, True, "time_limit", []),
    ],
)
def test_several_ranks_are_asked_the_same_for_the_same_few_steps(
    probed, monkeypatch, on_cuda, has_ddp, ended_by, phases
):
    monkeypatch.setattr(schedule.averaging, "can_be_left_out", lambda session: has_ddp)
    probed.window.steps_by, probed.window.start, probed.window.ended_by = "optimizer", 5, ended_by
    probed.trains_on_cuda, probed.world_size = lambda: on_cuda, lambda: 2
    probed.ranks.all_are_ready = lambda is_ready: is_ready
    probed.request["what_ifs"], probed.request["what_if_limit_s"] = True, 40
    assert schedule.choose(probed, [], 0.8)[1] == phases
    assert schedule.choose(probed, [], 0.9)[1] == [phase for phase in phases if phase[0] == "profile"]


@pytest.mark.parametrize(("others", "expected"), [(("1",), True), (("0",), False), ((), False)])
def test_ranks_go_on_when_all_of_them_are_ready(tmp_path, monkeypatch, others, expected):
    monkeypatch.setattr(ranks, "PATIENCE_S", 0.05)
    monkeypatch.setenv("WORLD_SIZE", "2")
    for rank, answer in enumerate(others, 1):
        (tmp_path / f"ready-{rank}").write_text(answer)
    assert ranks.Ranks(str(tmp_path)).all_are_ready(True) is expected
    assert (tmp_path / "ready-0").exists() is bool(others)


@pytest.mark.parametrize(("mean_s", "ranks", "steps"), [(0.5, 1, 3), (0.01, 1, 10), (0.0001, 1, 50), (0.0001, 2, 3)])
def test_short_steps_are_profiled_for_longer(probed, monkeypatch, mean_s, ranks, steps):
    probed.request["what_if_limit_s"] = 60
    probed.world_size = lambda: ranks
    monkeypatch.setattr(what_if_probes.WhatIfProbes, "_mean_s", lambda _: mean_s)
    assert what_if_probes.WhatIfProbes(probed)._profiled_steps() == steps


@pytest.mark.parametrize(
    ("mean_s", "looks"),
    [
        (1.4, ["lines", "operations", "results", "rows", "frozen"]),
        (2.9, ["lines", "operations"]),
        (5.9, ["operations"]),
        (6.1, []),
    ],
)
def test_of_long_steps_only_what_the_window_cannot_tell_is_looked_at(probed, monkeypatch, mean_s, looks):
    monkeypatch.setattr(schedule, "LOOKS", LOOKS)
    probed.trains_on_cuda = lambda: False
    assert [name for name, _ in schedule._looks(probed, mean_s)] == looks


def on_a_card(monkeypatch, session_type, *, peak, room):
    """CUDA's allocator as it would answer: a peak of `peak` bytes, 1,000 between steps, `room` in all."""
    monkeypatch.setattr(session_type, "trains_on_cuda", lambda self: True)
    monkeypatch.setattr(torch.cuda, "memory_allocated", lambda: 1000)
    monkeypatch.setattr(torch.cuda, "memory_reserved", lambda: 1000)
    monkeypatch.setattr(torch.cuda, "mem_get_info", lambda: (room - 1000, 0))
    return peak


@pytest.mark.parametrize(
    ("factor", "narrowest", "room", "needed"),
    [
        (2, 1.0, 16_976, None),  # 1,000 + 2 x (9,012 - 1,000 - 2 x 12) = 16,976: what grows twice just fits
        (2, 1.0, 16_975, 16_976),
        (4, 1.0, 16_976, 32_952),
        (2, 0.5, 8_987, 8_988),  # the batches that are tried may be half as wide as what made the peak
        (0.5, 1.0, 10, None),
        (1, 1.0, 10, None),
    ],
)
def test_a_micro_batch_that_surely_does_not_fit(factor, narrowest, room, needed, run, monkeypatch):
    from autotune.probe.what_ifs.memory_room import needed_without_room

    session = run(Model())
    session.models[:] = [{"object": lambda: kept}]
    kept = torch.nn.Linear(2, 1)  # 12 bytes
    session.memory_row["peak_allocated_bytes"] = on_a_card(monkeypatch, type(session), peak=9_012, room=room)
    assert needed_without_room(session, factor, narrowest) == needed


@pytest.mark.parametrize(
    ("events", "needed"),
    [
        ([("forward", 5, 6, 0, 3)], 16_976),
        ([("forward", 5, 6, 0, 3), ("forward", 7, 8, 1, 0)], 16_976),  # a teacher
        ([("forward", 5, 6, 0, 3), ("forward", 7, 8, 0, 0)], None),
        ([("evaluation", 5, 6, -1, 0)], None),
        ([("checkpoint", 5, 6, -1, 0)], None),
        ([("checkpoint", 1, 2, -1, 0)], 16_976),  # before the window
        ([("evaluation", 101, 102, -1, 0)], 16_976),  # of another what-if
    ],
)
def test_a_peak_that_an_evaluation_or_a_save_may_have_made_says_nothing(events, needed, run, monkeypatch):
    from autotune.probe.what_ifs.memory_room import needed_without_room

    session = run(Model())
    session.models[:] = [{"object": lambda: kept}]
    kept = torch.nn.Linear(2, 1)  # 12 bytes
    session.memory_row["peak_allocated_bytes"] = on_a_card(monkeypatch, type(session), peak=9_012, room=16_975)
    monkeypatch.setattr(session.window, "span", lambda: (4, 100))
    session.recorder.events = events
    assert needed_without_room(session, 2, 1.0) == needed


def test_it_is_noted_and_the_other_what_ifs_go_on(run, monkeypatch):
    def too_large(session, factor, narrowest):
        assert narrowest == 1.0
        return 41 if factor == 2 else None

    monkeypatch.setattr(what_if_probes.memory_room, "needed_without_room", too_large)
    model = Model()
    session = run(model)
    tried = [one for one in session.what_ifs if one["name"] == "micro_batch"]
    assert {(one["arguments"]["factor"], one["outcome"]) for one in tried} == {
        (0.5, "completed"),
        (1, "completed"),
        (2, "left_out"),
    }
    assert [one["result"] for one in tried if one["arguments"]["factor"] == 2] == [{"needed_bytes": 41}] * ROUNDS
    assert max(model.sizes) == 4
