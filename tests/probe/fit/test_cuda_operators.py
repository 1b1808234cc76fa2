"""CUDA's ways on the host: what is kept for backward, by type and size."""

from __future__ import annotations

import pytest
import torch
from torch.nn import functional

from autotune.probe.fit import cuda_operators
from autotune.probe.patches import Patches


@pytest.fixture
def operators():
    patches = Patches()
    cuda_operators.install(patches)
    yield
    patches.restore()


def autocast():
    return torch.autocast("cpu", dtype=torch.bfloat16)


def kept(function, *tensors):
    """(type, elements) of what is saved for backward."""
    found = []

    def note(tensor):
        found.append((str(tensor.dtype).removeprefix("torch."), tensor.numel()))
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(note, lambda tensor: tensor):
        function(*tensors).sum().backward()
    return found


def test_autocast_keeps_softmax_and_norms_in_fp32(operators):
    x = torch.randn(4, 8, dtype=torch.bfloat16)
    with autocast():
        assert functional.softmax(x, -1).dtype is torch.float32
        assert functional.log_softmax(x, -1).dtype is torch.float32
        assert functional.layer_norm(x, (8,)).dtype is torch.float32
        assert x.exp().dtype is x.pow(2).dtype is x.sum().dtype is torch.float32
        assert functional.softmax(x, -1, dtype=torch.bfloat16).dtype is torch.bfloat16
        assert functional.linear(x.float(), x.float()).dtype is torch.bfloat16


def test_without_autocast_nothing_is_cast(operators):
    x = torch.randn(4, 8, dtype=torch.bfloat16)
    assert functional.softmax(x, -1).dtype is functional.layer_norm(x, (8,)).dtype is torch.bfloat16


def test_dropout_keeps_a_mask_of_one_byte(operators):
    x = torch.randn(64, 64, requires_grad=True)
    assert ("bool", 64 * 64) in kept(lambda one: functional.dropout(one, 0.1), x)
    assert ("float32", 64 * 64) not in kept(lambda one: functional.dropout(one, 0.1), x)
    assert functional.dropout(x, 0.1, training=False) is x


def test_attention_with_dropout_does_not_write_its_products(operators):
    x = torch.randn(2, 4, 128, 16, requires_grad=True)

    def attention(one):
        return functional.scaled_dot_product_attention(one, one, one, dropout_p=0.1)

    assert max(size for _, size in kept(attention, x)) < 2 * 4 * 128 * 128


def test_attention_gives_what_it_gave(operators):
    query, key, value = torch.randn(3, 2, 4, 32, 16).unbind(0)
    mask = torch.zeros(32, 32)
    written = functional.softmax(query @ key.transpose(-1, -2) / 4 + mask, -1) @ value
    assert torch.allclose(functional.scaled_dot_product_attention(query, key, value, mask), written, atol=1e-5)
    grouped = functional.scaled_dot_product_attention(query, key[:, :2], value[:, :2], enable_gqa=True)
    assert grouped.shape == query.shape
    doubles = query.double()
    assert functional.scaled_dot_product_attention(doubles, doubles, doubles).dtype is torch.float64


def test_torch_is_as_it_was_afterwards():
    patches = Patches()
    cuda_operators.install(patches)
    patches.restore()
    x = torch.randn(4, 8, dtype=torch.bfloat16)
    with autocast():
        assert functional.softmax(x, -1).dtype is torch.bfloat16
