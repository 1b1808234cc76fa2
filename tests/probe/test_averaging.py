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
