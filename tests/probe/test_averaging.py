"""What DDP says of its averaging is kept for the backwards of the window, and DDP is left as it was."""

from __future__ import annotations

import pytest
import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

from autotune.probe import averaging


@pytest.fixture
def group():
    dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
    yield
    dist.destroy_process_group()


def train(model, steps):
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for _ in range(steps):
        loss = model(torch.ones(64, 32)).sum()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


def test_each_backward_of_the_window_but_the_last_is_told(group, attach):
    session = attach(warmup=2)
    train(DistributedDataParallel(torch.nn.Linear(32, 32)), 16)
    rows = session.averaging.rows
    # 14 in the window, also those after the ten that DDP times by itself.
    assert len(rows) == 13
    ends = [end for kind, _, end, _, _ in session.recorder.events if kind == "backward"][2:-1]
    assert all(0 <= told - end < 50_000_000 for (told, _, _), end in zip(rows, ends, strict=True))
    assert all(exposed >= 0 and compute > 0 for _, exposed, compute in rows)


def test_ddp_times_as_seldom_as_before_when_the_window_is_over(group, attach, monkeypatch):
    rates = []
    native = DistributedDataParallel._set_ddp_runtime_logging_sample_rate
    monkeypatch.setattr(
        DistributedDataParallel,
        "_set_ddp_runtime_logging_sample_rate",
        lambda self, rate: (rates.append(rate), native(self, rate)),
    )
    session = attach(warmup=2)
    train(DistributedDataParallel(torch.nn.Linear(32, 32)), 4)
    session.averaging.stop()
    assert rates == [1, averaging.DEFAULT_RATE]


def test_a_plain_model_is_not_asked(attach):
    session = attach(warmup=2)
    train(torch.nn.Linear(32, 32), 5)
    assert session.averaging.rows == []


@pytest.fixture
def counted(group):
    """A wrapped model, and the buckets that were sent."""
    model, sent = DistributedDataParallel(torch.nn.Linear(32, 32)), []

    def hook(_, bucket):
        sent.append(bucket.index())
        future = torch.futures.Future()
        future.set_result(bucket.buffer())
        return future

    model.register_comm_hook(None, hook)
    return model, sent


def own_switch(model, steps):
    """A loop that sets DDP's switch itself before each micro-batch."""
    for _ in range(steps):
        model.require_backward_grad_sync = True
        model(torch.ones(4, 32)).sum().backward()


@pytest.mark.parametrize("run", [train, own_switch], ids=["plain", "the script sets the switch itself"])
def test_steps_without_averaging_send_nothing_and_then_all_is_as_it_was(attach, counted, run):
    model, sent = counted
    session = attach(warmup=50)
    run(model, 2)
    assert len(sent) == 2 and averaging.can_be_left_out(session)
    undo = averaging.leave_out(session)
    run(model, 3)
    assert len(sent) == 2 and model.require_backward_grad_sync
    undo()
    run(model, 2)
    assert len(sent) == 4


def static(module):
    return DistributedDataParallel(module, static_graph=True)


@pytest.mark.parametrize("wrapped", [static, torch.nn.Sequential], ids=["a static graph", "no DDP"])
def test_what_cannot_bear_it_keeps_its_averaging(group, attach, wrapped):
    session = attach(warmup=50)
    train(wrapped(torch.nn.Linear(32, 32)), 1)
    assert not averaging.can_be_left_out(session)


def test_two_models_take_turns_that_nobody_knows(group, attach):
    session = attach(warmup=50)
    models = [DistributedDataParallel(torch.nn.Linear(32, 32)) for _ in range(2)]
    for model in models:
        train(model, 1)
    assert not averaging.can_be_left_out(session)
