"""The phases that look at lines, in a session of a small loop."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import jsonschema
import pytest
import torch
from torch.utils.data import DataLoader, TensorDataset

from autotune.model import recording as wire
from autotune.probe import snapshot
from autotune.probe.lines import line_sampler, operations
from autotune.probe.what_ifs import schedule

SCHEMA = json.loads((Path(wire.__file__).parent / "recording.schema.json").read_text(encoding="utf-8"))


class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = torch.nn.ModuleList(torch.nn.Linear(8, 8) for _ in range(3))

    def forward(self, x):
        for layer in self.layers:
            x = torch.relu(layer(x))
        table = torch.arange(6400.0).sin()
        return x.sum() + table.sum()


@pytest.fixture
def run(attach, left, monkeypatch):
    """run(number of batches): trains until the probe leaves; the session."""
    monkeypatch.setattr(schedule, "PHASE_S", 0.0)
    monkeypatch.setattr(schedule, "SHORT_S", 0.0)
    monkeypatch.setattr(schedule.torch_settings, "choices", lambda _: [])
    monkeypatch.setattr(sys, "excepthook", sys.excepthook)
    monkeypatch.setattr(line_sampler, "ENOUGH_S", 0.4)

    def train(batches=4096):
        session = attach(steps=4, warmup=1)
        monkeypatch.setattr(schedule, "LOOKS", (("lines", {}), ("operations", {}), ("results", {})))
        session.wait_share = lambda: 0.0
        model = Model()
        optimizer = torch.optim.SGD(model.parameters(), lr=0.0)
        with pytest.raises(left):
            for (x,) in DataLoader(TensorDataset(torch.randn(batches * 4, 8)), batch_size=4):
                model(x).backward()
                optimizer.step()
                optimizer.zero_grad()
            raise AssertionError("the data ended before the probe left")
        return session

    return train


def test_lines_modules_operations_and_results_are_recorded(run):
    switch = sys.getswitchinterval()
    session = run()
    assert sys.gettrace() is None
    assert sys.getswitchinterval() == switch
    assert session.recorder.modules is None
    row = json.loads(json.dumps(snapshot.recording(session, "completed"), allow_nan=False))
    jsonschema.validate(row, SCHEMA)
    lines = row["lines"]
    here = {frame[0] for sample in lines["lines"]["rows"] for frame in sample["frames"]}
    assert here == {__file__}
    assert {sample["phase"] for sample in lines["lines"]["rows"]} >= {"forward", "backward"}
    assert lines["operations"]["steps"] == 2
    assert lines["operations"]["backward_ns"] > 0
    modules = {module["name"] for module in lines["operations"]["modules"]}
    assert modules == {"Model", "layers.0", "layers.1", "layers.2"}
    assert lines["results"]["steps"] == 4
    assert [row["name"] for row in session.what_ifs][:1] == ["replay"]


def test_an_operation_belongs_to_its_line_and_module_and_so_does_its_backward(run):
    found = run().lines["operations"]
    rows = found["rows"]
    first = Model.forward.__code__.co_firstlineno
    of_layers = [row for row in rows if row["line"] == first + 2]
    assert {row["module"] for row in of_layers} == {"layers.0", "layers.1", "layers.2", "Model"}
    assert all(row["ops"] == 2 and row["backward_ns"] > 0 for row in of_layers if row["module"].startswith("layers."))
    (table,) = [row for row in rows if row["line"] == first + 3]
    assert (table["ops"], table["backward_ns"]) == (4, 0)
    runs = {row["line"]: row["count"] for row in found["runs"]}
    assert (runs[first + 2], runs[first + 3]) == (6, 2)


def test_an_epoch_that_ends_is_gone_on_with_kept_batches(run):
    session = run(batches=8)
    assert set(session.lines) == {"lines", "operations", "results"}
    assert any(row["phase"] == "kept" for row in session.lines["lines"]["rows"])


def test_a_script_with_a_profiler_of_its_own_has_no_operations(run, monkeypatch):
    def refuse(**_):
        raise RuntimeError("a profiler is on")

    monkeypatch.setattr(operations.profiling, "start", refuse)
    assert set(run().lines) == {"lines", "results"}


class Features(torch.nn.Module):
    """Frozen layers in front of a trained one; `change` is done to their weights in each call."""

    def __init__(self, change, is_under_no_grad):
        super().__init__()
        self.frozen = torch.nn.Sequential(*(torch.nn.Linear(64, 64) for _ in range(8))).requires_grad_(False).eval()
        self.scale = torch.nn.Parameter(torch.ones(64))
        self.head = torch.nn.Linear(64, 1)
        self.change, self.is_under_no_grad = change, is_under_no_grad

    def forward(self, x):
        inputs = self.change(x, self) if self.is_under_no_grad else x * self.scale
        return self.head(self.frozen(inputs)).sum()


def same(x, model):
    return x


def noisy(x, model):
    return x + torch.rand_like(x)


def averaged(x, model):
    with torch.no_grad():
        model.frozen[0].weight.mul_(0.999)
    return x


@pytest.mark.parametrize(
    ("change", "is_under_no_grad", "expected"),
    [(same, True, (True, False)), (noisy, True, (False, False)), (averaged, True, (False, False)),
     (same, False, (False, True))],
    ids=["the same", "noise on the way", "weights that move", "gradients through it"],
)  # fmt: skip
def test_a_frozen_module_is_given_one_batch_again_and_again(
    attach, left, monkeypatch, change, is_under_no_grad, expected
):
    monkeypatch.setattr(schedule, "PHASE_S", 0.0)
    monkeypatch.setattr(schedule, "SHORT_S", 0.0)
    monkeypatch.setattr(schedule.torch_settings, "choices", lambda _: [])
    monkeypatch.setattr(sys, "excepthook", sys.excepthook)
    monkeypatch.setattr(line_sampler, "ENOUGH_S", 0.4)
    monkeypatch.setattr(line_sampler, "FROZEN_SHARE", 0.0)  # beside other tests few samples fall into it
    monkeypatch.setattr(schedule, "LOOKS", (("lines", {}), ("frozen", {})))
    session = attach(steps=4, warmup=1)
    session.wait_share = lambda: 0.0
    model = Features(change, is_under_no_grad)
    optimizer = torch.optim.SGD([model.scale, *model.head.parameters()], lr=0.1)
    with pytest.raises(left):
        for (x,) in DataLoader(TensorDataset(torch.randn(16384, 64)), batch_size=4):
            model(x).backward()
            optimizer.step()
            optimizer.zero_grad()
        raise AssertionError("the data ended before the probe left")
    row = json.loads(json.dumps(snapshot.recording(session, "completed"), allow_nan=False))
    jsonschema.validate(row, SCHEMA)
    found = row["lines"]["frozen"]
    assert [(one["name"], one["is_same"], one["needs_grad"]) for one in found["rows"]] == [("frozen", *expected)]
    assert found.get("are_same_batches") == (True if expected[0] else None)


class Assigned(torch.nn.Module):
    """Fills a tensor in place: each assignment makes a node that copies the gradient of all of it."""

    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(8, 8)

    def forward(self, x):
        hidden = self.layer(x)
        volume = torch.zeros(64, 4, 8)
        for place in range(64):
            volume[place] = hidden * 2.0
        return volume.sum()


def test_nodes_of_assignments_in_place_belong_to_the_line_that_assigns(run, monkeypatch):
    monkeypatch.setattr(sys.modules[__name__], "Model", Assigned)
    found = run().lines["operations"]
    rows = [row for row in found["rows"] if row["file"] == __file__]
    assigned = sum(row["backward_ns"] for row in rows if row["function"] == "forward")
    assert assigned >= 0.8 * found["backward_ns"]
