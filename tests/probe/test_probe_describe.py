from __future__ import annotations

import os
import sys
import types

import pytest
import torch

from autotune.catalogue.frameworks import library_versions
from autotune.probe import describe


class Block(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(4, 4)
        self.norm = torch.nn.BatchNorm1d(4)
        self.gradient_checkpointing = False


def test_a_module_that_is_not_imported_hides_no_other_of_its_distribution(monkeypatch):
    monkeypatch.setitem(sys.modules, "lightning", types.SimpleNamespace(__version__="2.6.6"))
    monkeypatch.delitem(sys.modules, "pytorch_lightning", raising=False)
    monkeypatch.delitem(sys.modules, "lightning_fabric", raising=False)
    versions = describe.software(library_versions())
    assert versions["lightning"] == "2.6.6"
    assert "lightning-fabric" not in versions
    versions = describe.software({"lightning": "lightning", "pytorch_lightning": "lightning"})
    assert versions["lightning"] == "2.6.6"


def test_what_a_model_is():
    model = torch.nn.Sequential(Block(), torch.nn.Linear(4, 1, bias=False).to(torch.bfloat16))
    model[0].layer.weight.requires_grad_(False)
    row = describe.model(model)
    assert row == {
        "type": "Sequential",
        "module": "torch.nn.modules.container",
        "num_params": 16 + 4 + 8 + 4,
        "num_trainable": 4 + 8 + 4,
        "param_bytes": 28 * 4 + 4 * 2,
        "dtypes": {"float32": 28, "bfloat16": 4},
        "num_batchnorm": 1,
        "checkpointing": False,
        "compiled": False,
        "parallel": None,
    }


def test_checkpointing_of_any_part_counts():
    model = torch.nn.Sequential(Block(), Block())
    model[1].gradient_checkpointing = True
    assert describe.model(model)["checkpointing"] is True


class FakeParallel(torch.nn.Module):
    """As DistributedDataParallel: the model stands in `module`."""

    def __init__(self, module):
        super().__init__()
        self.module = module


@pytest.mark.parametrize(
    ("wrap", "compiled", "parallel"),
    [
        (lambda model: model, False, None),
        (lambda model: torch.compile(model, backend="eager"), True, None),
        (lambda model: torch.compile(FakeParallel(model), backend="eager"), True, "FakeParallel"),
        (FakeParallel, False, "FakeParallel"),
    ],
)
def test_wrappers_are_looked_through(wrap, compiled, parallel):
    block = Block()
    wrapped = wrap(block)
    assert describe.inner(wrapped) is block
    row = describe.model(wrapped)
    assert (row["type"], row["compiled"]) == ("Block", compiled)
    assert row["parallel"] == parallel


@pytest.mark.parametrize(
    ("make", "has_fused"),
    [
        (lambda p: torch.optim.AdamW(p), True),
        (lambda p: torch.optim.RMSprop(p), False),
        (lambda p: torch.optim.LBFGS(p), False),
    ],
)
def test_whether_torch_has_a_fused_kernel(make, has_fused):
    assert describe.optimizer(make(list(Block().parameters())))["has_fused"] is has_fused


@pytest.mark.parametrize(
    ("make", "momentum", "states"),
    [
        (lambda p: torch.optim.SGD(p, lr=0.1), 0, 0),
        (lambda p: torch.optim.SGD(p, lr=0.1, momentum=0.9), 0.9, 1),
        (lambda p: torch.optim.AdamW(p), None, 2),
    ],
)
def test_what_an_optimizer_keeps_is_measured(make, momentum, states):
    model = torch.nn.Linear(8, 4)
    optimizer = make(model.parameters())
    assert describe.optimizer(optimizer)["state_bytes"] == {}
    model(torch.ones(1, 8)).sum().backward()
    optimizer.step()
    row = describe.optimizer(optimizer)
    counters = 2 * 4 if states == 2 else 0  # Adam keeps the number of its steps
    assert row["arguments"].get("momentum") == momentum
    assert sum(row["state_bytes"].values()) == states * (8 * 4 + 4) * 4 + counters


def test_a_state_in_lists_counts_once_and_one_that_cannot_be_read_is_not_known():
    optimizer = torch.optim.SGD(torch.nn.Linear(2, 2).parameters(), lr=0.1)
    shared = torch.zeros(4)
    optimizer.state["all"] = {"old": [shared, torch.zeros(2, dtype=torch.float64)], "same": shared, "step": 3}
    assert describe.optimizer(optimizer)["state_bytes"] == {"cpu": 4 * 4 + 2 * 8}
    optimizer.state["all"]["old"].append(Quantised(torch.zeros(4)))
    assert describe.optimizer(optimizer)["state_bytes"] is None
    optimizer.state = None
    assert describe.optimizer(optimizer)["state_bytes"] is None


class Quantised(torch.Tensor):
    """A tensor whose bytes are not its elements'."""

    @staticmethod
    def __new__(cls, data):
        return torch.Tensor._make_subclass(cls, data)


def test_padding_indices_of_the_embeddings():
    model = torch.nn.Sequential(torch.nn.Embedding(9, 2, padding_idx=3), torch.nn.Embedding(9, 2))
    assert describe.padding_indices(model) == [3]


def test_the_device_is_the_first_parameters():
    assert describe.device(Block()) == {"type": "cpu", "index": None, "name": None, "capability": None}
    assert describe.device(torch.nn.ReLU()) is None


@pytest.mark.skipif(not os.path.exists("/proc/self/status"), reason="needs /proc")
def test_memory_and_io_of_this_process():
    assert 0 < describe.resident_bytes("VmRSS") <= describe.resident_bytes("VmHWM")
    assert describe.resident_bytes("NoSuchRow") is None
    before = describe.io_bytes([os.getpid()])
    with open(__file__, "rb") as file:
        size = len(file.read())
    after = describe.io_bytes([os.getpid(), 2**22 + 1])
    assert after["read_chars"] - before["read_chars"] >= size


def test_torch_switches():
    row = describe.torch_state()
    assert row["num_threads"] == torch.get_num_threads()
    assert row["anomaly"] is False
    with torch.autograd.set_detect_anomaly(True, check_nan=False):
        assert describe.torch_state()["anomaly"] is True


def test_memory_that_is_used_now(monkeypatch):
    resident = describe.resident_bytes("VmRSS")
    assert describe.used_bytes(False) == pytest.approx(resident, rel=0.1)
    monkeypatch.setattr(torch.cuda, "memory_stats_as_nested_dict", lambda: {"allocated_bytes": {"all": {"current": 7}}})
    assert describe.used_bytes(True) == 7
    monkeypatch.setattr(torch.cuda, "memory_stats_as_nested_dict", dict)
    assert describe.used_bytes(True) is None
    monkeypatch.setattr(describe, "_STATM", {os.getpid(): -1})
    assert describe.used_bytes(False) is None


@pytest.mark.parametrize(
    ("matmul", "cuda", "every", "expected"),
    [
        ("tf32", "none", "none", "high"),
        ("ieee", "tf32", "tf32", "highest"),
        ("none", "tf32", "none", "high"),
        ("none", "none", "tf32", "high"),
        ("none", "none", "none", "highest"),
        (None, None, None, None),
    ],
)
def test_the_precision_of_products_by_the_switches_of_operations(matmul, cuda, every, expected):
    def refuse():
        raise RuntimeError("PyTorch is checking whether allow_tf32_new is enabled for cuBlas matmul")

    def of(value):
        return types.SimpleNamespace() if value is None else types.SimpleNamespace(fp32_precision=value)

    backends = of(every)
    backends.cuda, backends.cudnn = types.SimpleNamespace(matmul=of(matmul)), of(cuda)
    fake = types.SimpleNamespace(get_float32_matmul_precision=refuse, backends=backends)
    assert describe._matmul_precision(fake) == expected
