"""The live storages against the allocator of the host: what it says of a step is what a real one takes."""

from __future__ import annotations

import pytest
import torch
from torch import nn
from torch.profiler import ProfilerActivity, profile

from autotune.probe.fit.fake_parameters import FakeParameters, is_fake
from autotune.probe.fit.live_storages import FORWARD, UPDATE, LiveStorages


class Recorder:
    def __init__(self):
        self.stack = []


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed, self.first, self.norm = nn.Embedding(100, 64), nn.Linear(64, 256), nn.LayerNorm(256)
        self.last = nn.Linear(256, 100)

    def forward(self, ids):
        return self.last(self.norm(torch.relu(self.first(self.embed(ids)))))


@pytest.fixture
def faked():
    """faked(model): (storages, leave) with everything of the model fake and both modes entered."""
    modes = []

    def make(model):
        parameters, storages = FakeParameters(), LiveStorages(Recorder())
        for mode in (parameters.mode, storages.mode()):
            mode.__enter__()
            modes.append(mode)
        for tensor in parameters.take_module(model):
            storages.note(tensor)
        return storages

    yield make
    for mode in reversed(modes):
        mode.__exit__(None, None, None)


def step(model, optimizer, ids, storages=None):
    loss = nn.functional.cross_entropy(model(ids).flatten(0, 1), ids.flatten())
    loss.backward()
    if storages is not None:
        storages._recorder.stack.append("optimizer")
    optimizer.step()
    if storages is not None:
        storages._recorder.stack.pop()
    optimizer.zero_grad()


def measured_peak(model, optimizer, ids):
    """The rise of the host's allocator over its start, by the events of the profiler."""
    with profile(activities=[ProfilerActivity.CPU], profile_memory=True) as found:
        step(model, optimizer, ids)
    sizes = [event for event in found.profiler.kineto_results.events() if event.name() == "[memory]"]
    total = peak = 0
    for event in sorted(sizes, key=lambda one: one.start_ns()):
        total += event.nbytes()
        peak = max(peak, total)
    return peak


def peak_of(storages):
    total = peak = sum(storages.live_at_start.values())
    live = dict(storages.live_at_start)
    for key, size in storages.changes:
        total += size if size else -live.pop(key)
        if size:
            live[key] = size
        peak = max(peak, total)
    return peak


@pytest.mark.parametrize("kind", [torch.optim.AdamW, torch.optim.SGD])
def test_a_fake_step_takes_what_a_real_one_takes(faked, kind):
    ids = torch.randint(0, 100, (16, 64))
    real = Net()
    optimizer = kind(real.parameters(), lr=1e-3, foreach=False)
    step(real, optimizer, ids)
    truth = measured_peak(real, optimizer, ids)

    model = Net()
    optimizer = kind(model.parameters(), lr=1e-3, foreach=False)
    storages = faked(model)
    step(model, optimizer, ids, storages)
    before = sum(storages.sizes.values())
    storages.start_step()
    step(model, optimizer, ids, storages)
    assert peak_of(storages) - before == pytest.approx(truth, rel=0.03)


def test_storages_go_when_nobody_holds_them(faked):
    model = Net()
    storages = faked(model)
    start = dict(storages.sizes)
    result = model(torch.randint(0, 100, (4, 8)))
    assert len(storages.sizes) > len(start)
    del result
    left = [size for key, size in storages.sizes.items() if key not in start]
    assert left == []


def test_parameters_stay_the_same_objects_and_lose_their_memory(faked):
    model = Net()
    first = model.first.weight
    optimizer = torch.optim.SGD(model.parameters(), lr=1.0)
    faked(model)
    assert first is model.first.weight is optimizer.param_groups[0]["params"][1]
    assert is_fake(first) and isinstance(first, nn.Parameter) and first.requires_grad


def test_parameters_keep_their_hooks(faked):
    model, seen = Net(), []
    model.last.weight.register_hook(lambda gradient: seen.append("gradient"))
    model.last.weight.register_post_accumulate_grad_hook(lambda parameter: seen.append("accumulated"))
    faked(model)
    model(torch.randint(0, 100, (4, 8))).sum().backward()
    assert seen == ["gradient", "accumulated"]


def test_phases_are_told_apart(faked):
    model = Net()
    optimizer = torch.optim.AdamW(model.parameters(), foreach=True)
    storages = faked(model)
    storages.start_step()
    step(model, optimizer, torch.randint(0, 100, (4, 8)), storages)
    assert set(storages.phases) == {FORWARD, UPDATE}


def test_a_value_that_only_data_can_say_is_made_up_and_named(faked):
    model = Net()
    storages = faked(model)
    result = model(torch.randint(0, 100, (4, 8)))
    assert (result.sum().item(), bool((result > 0).any()), int(result.argmax())) == (1.0, False, 1)
    assert result[result > 0].shape == (result.numel(),)
    names = {name for _, name, _ in storages.made_up}
    assert {"aten::_local_scalar_dense", "aten::index"} <= names


def test_in_inference_mode_a_number_is_made_up_too(faked):
    """Composite operators come whole there: aten::item, not what it is made of."""
    model = Net()
    storages = faked(model)
    with torch.inference_mode():
        assert model(torch.randint(0, 100, (4, 8))).sum().item() == 1.0
    assert any(name in ("aten::item", "aten::_local_scalar_dense") for _, name, _ in storages.made_up)


def test_work_is_counted_by_operator(faked):
    model = nn.Linear(64, 32, bias=False)
    storages = faked(model)
    storages.start_step()
    model(torch.zeros(8, 64))
    assert {operations: kind for (operations, _, kind) in storages.work}[2 * 8 * 64 * 32] == "float32"
