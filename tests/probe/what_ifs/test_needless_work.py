from __future__ import annotations

import itertools
import sys
import types
from collections import Counter

import numpy as np
import pytest
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

from autotune.probe import call_sites
from autotune.probe.what_ifs import float64, needless_work, schedule


@pytest.fixture(autouse=True)
def short_phases(monkeypatch):
    monkeypatch.setattr(schedule, "PHASE_S", 0.0)
    monkeypatch.setattr(schedule, "SHORT_S", 0.0)
    monkeypatch.setattr(schedule.torch_settings, "choices", lambda _: [])
    monkeypatch.setattr(sys, "excepthook", sys.excepthook)
    monkeypatch.setattr(call_sites, "is_user", lambda file: file == __file__)
    monkeypatch.setattr(float64, "_user_files", list)


class Model(nn.Module):
    def __init__(self, table):
        super().__init__()
        self.encoder, self.head, self.table = nn.Linear(2, 8), nn.Linear(8, 1), table
        self.dtypes = []

    def forward(self, x):
        hidden = self.encoder(x)[:, None] * self.table
        self.dtypes.append(hidden.dtype)
        return self.head(hidden.mean(1).float())


@pytest.fixture
def run(attach, left):
    """run(trained, table): trains those parts of a model until the probe leaves; (session, model)."""

    def train(trained, table, has_loader=True):
        session = attach(steps=4, warmup=1)
        session.wait_share = lambda: 0.0
        model = Model(table)
        parameters = [parameter for part in trained for parameter in getattr(model, part).parameters()]
        optimizer = torch.optim.SGD(parameters, lr=0.1)
        loader = DataLoader(TensorDataset(torch.ones(4096, 2)), batch_size=4)
        with pytest.raises(left):
            for (x,) in loader if has_loader else itertools.repeat((torch.ones(4, 2),)):
                model(x).sum().backward()
                optimizer.step()
                optimizer.zero_grad()
            raise AssertionError("the data ended before the probe left")
        return session, model

    return train


def changed(session):
    return Counter(str(row["arguments"]) for row in session.what_ifs if row["name"] == "replay_changed")


def watched(session):
    (row,) = [row for row in session.what_ifs if row["name"] == "watch"]
    assert row["outcome"] == "completed"
    return row["result"]


FLOAT32, FLOAT64 = torch.ones(600, 8), torch.from_numpy(np.ones((600, 8)))


@pytest.mark.parametrize("has_loader", [True, False])
def test_a_healthy_script_is_watched_and_nothing_is_replayed(run, has_loader):
    session, _ = run(["encoder", "head"], FLOAT32, has_loader)
    assert watched(session) == {"gradients": [], "second_derivatives": [], "float64": None}
    assert not changed(session)


def test_what_is_found_is_replayed_without_it_in_turns(run):
    rounds = schedule.MOST_ROUNDS
    session, model = run(["head"], FLOAT64)
    assert watched(session)["gradients"][0]["modules"] == "model.encoder.*"
    assert watched(session)["float64"]["source"] == "self.table"
    assert changed(session) == {
        "{}": rounds, "{'unused_gradients': False}": rounds, "{'float64': True}": rounds, "{'float64': False}": rounds,
    }  # fmt: skip
    assert all(row["outcome"] == "completed" for row in session.what_ifs)
    at_the_end = Counter(model.dtypes)
    assert at_the_end[torch.float32] == rounds * (schedule.LEAST_IN_ROUND + schedule.THROWN_AWAY)
    assert torch.from_numpy(np.ones(2)).dtype is torch.float64 and "grad" not in vars(torch.Tensor)


def test_one_round_at_least_twice(run, monkeypatch):
    monkeypatch.setattr(schedule, "MOST_ROUNDS", 1)
    session, _ = run(["head"], FLOAT32)
    assert changed(session) == {"{}": 2, "{'unused_gradients': False}": 2}


def test_float64_that_is_asked_for_is_not_tried(run, monkeypatch):
    monkeypatch.setattr(float64, "_user_files", lambda: ["/no/such/file.py"])
    session, _ = run(["encoder", "head"], FLOAT64)
    assert watched(session)["float64"]["is_asked_for"] is True
    assert not changed(session)


def test_compiled_code_is_not_watched(probed, monkeypatch):
    utils = types.SimpleNamespace(counters={"stats": Counter()})
    monkeypatch.setitem(sys.modules, "torch._dynamo.utils", utils)
    assert needless_work.can_be_watched(probed)
    utils.counters["stats"]["unique_graphs"] = 1
    assert not needless_work.can_be_watched(probed)


def test_a_script_that_fails_while_it_is_watched_leaves_torch_as_it_was(attach, left):
    session = attach(steps=4, warmup=1)
    session.wait_share = lambda: 0.0
    model, steps = Model(FLOAT32), []
    optimizer = torch.optim.SGD(model.head.parameters(), lr=0.1)
    with pytest.raises(left):
        for (x,) in DataLoader(TensorDataset(torch.ones(4096, 2)), batch_size=4):
            steps.append(session.plan.current)
            wrong = x if steps.count("watch") < 3 else torch.ones(4, 3)
            model(wrong).sum().backward()
            optimizer.step()
    assert session.what_ifs[-1]["name"] == "watch" and session.what_ifs[-1]["outcome"] == "failed"
    assert "grad" not in vars(torch.Tensor)
