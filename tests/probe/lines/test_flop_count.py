"""Operations of a step, counted in a session of a small loop and by hand.

A product of (m, k) and (k, n) is 2mkn operations. Its backward makes two more of them: one for the weights, one for the
input, unless that needs no gradient.
"""

from __future__ import annotations

import sys

import pytest
import torch
from torch import nn
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils.checkpoint import checkpoint
from torch.utils.data import DataLoader, TensorDataset

from autotune.probe.what_ifs import schedule

BATCH = 16


@pytest.fixture
def counted(attach, left, monkeypatch):
    """counted(model, shape of a sample, loss(model, x)): what the phase brought."""
    monkeypatch.setattr(schedule, "PHASE_S", 0.0)
    monkeypatch.setattr(schedule, "SHORT_S", 0.0)
    monkeypatch.setattr(schedule.torch_settings, "choices", lambda _: [])
    monkeypatch.setattr(schedule.needless_work, "can_be_watched", lambda _: False)
    monkeypatch.setattr(schedule, "_looks", lambda session, mean_s: [("products", {})])
    monkeypatch.setattr(sys, "excepthook", sys.excepthook)

    def train(model, shape, loss=lambda model, x: model(x).square().mean()):
        session = attach(steps=4, warmup=1)
        session.wait_share = lambda: 0.0
        optimizer = torch.optim.SGD(model.parameters(), lr=0.001)
        with pytest.raises(left):
            for (x,) in DataLoader(TensorDataset(torch.randn(64 * BATCH, *shape)), batch_size=BATCH):
                loss(model, x).backward()
                optimizer.step()
                optimizer.zero_grad()
        return session.lines["products"]

    return train


def test_a_stack_of_linear_layers(counted) -> None:
    found = counted(nn.Sequential(nn.Linear(8, 32), nn.Tanh(), nn.Linear(32, 4)), (8,))
    first, second = 2 * BATCH * 8 * 32, 2 * BATCH * 32 * 4
    assert (first, second) == (8192, 4096)
    assert found == {"steps": 3 * [{"float32": 2 * first + 3 * second}], "unknown": []}
    assert found["steps"][0]["float32"] == 28672


def transformer() -> nn.Module:
    """One layer of width 32 with 4 heads and 128 hidden units, on 10 tokens."""
    return nn.TransformerEncoderLayer(32, 4, 128, dropout=0.0, batch_first=True)


def test_a_transformer(counted) -> None:
    with sdpa_kernel(SDPBackend.MATH):
        found = counted(transformer(), (10, 32))
    tokens, width = BATCH * 10, 32
    projections = 2 * tokens * width * 3 * width
    scores_and_values = 2 * (2 * BATCH * 10 * 10 * width)
    output, mlp = 2 * tokens * width * width, 2 * (2 * tokens * width * 4 * width)
    by_hand = 2 * projections + 3 * (scores_and_values + output + mlp)
    assert by_hand == 2 * 983_040 + 3 * (204_800 + 327_680 + 2_621_440) == 11_427_840
    assert found == {"steps": 3 * [{"float32": by_hand}], "unknown": []}


def test_convolutions(counted) -> None:
    """8x8 pixels; a kernel of 3x3 makes 9 products of each pair of channels at each pixel."""
    model = nn.Sequential(nn.Conv2d(3, 8, 3, padding=1), nn.ReLU(), nn.Conv2d(8, 16, 3, padding=1))
    found = counted(model, (3, 8, 8))
    first, second = 2 * BATCH * 64 * 3 * 8 * 9, 2 * BATCH * 64 * 8 * 16 * 9
    assert 2 * first + 3 * second == 2 * 442_368 + 3 * 2_359_296 == 7_962_624
    assert found == {"steps": 3 * [{"float32": 2 * first + 3 * second}], "unknown": []}


def test_what_is_computed_again_does_not_count(counted) -> None:
    model = nn.Sequential(nn.Linear(8, 32), nn.Tanh(), nn.Linear(32, 4))
    found = counted(model, (8,), lambda model, x: checkpoint(model, x, use_reentrant=False).square().mean())
    assert found["steps"] == 3 * [{"float32": 28672}]


def test_an_operator_without_a_formula_is_named(counted) -> None:
    """Of the attention of CPUs torch has none: what is counted is too small."""
    with sdpa_kernel(SDPBackend.FLASH_ATTENTION):
        found = counted(transformer(), (10, 32))
    assert "aten::_scaled_dot_product_flash_attention_for_cpu" in found["unknown"]


def test_the_element_type_is_that_of_the_product(counted) -> None:
    def loss(model, x):
        with torch.autocast("cpu", dtype=torch.bfloat16):
            return model(x).float().square().mean()

    found = counted(nn.Sequential(nn.Linear(8, 32), nn.Linear(32, 4)), (8,), loss)
    assert found["steps"] == 3 * [{"bfloat16": 28672}]
