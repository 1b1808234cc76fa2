from __future__ import annotations

import copy
from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace

import numpy
import pytest
import torch
from torch import nn

from autotune.probe.fit import fake_cuda
from autotune.probe.fit.fake_parameters import FakeParameters, is_fake
from autotune.probe.fit.live_storages import LiveStorages
from autotune.probe.patches import Patches


@pytest.fixture
def pretended():
    patches = Patches()
    fake_cuda.install(patches, "NVIDIA A100-SXM4-80GB", 80 * 2**30, (8, 0))
    yield patches
    patches.restore()


def test_the_script_sees_one_card(pretended):
    assert torch.cuda.is_available() and torch.cuda.device_count() == 1
    assert torch.cuda.get_device_capability() == (8, 0) and torch.cuda.is_bf16_supported()
    assert torch.cuda.get_device_properties(0).total_memory == 80 * 2**30
    torch.cuda.synchronize()
    with torch.cuda.stream(torch.cuda.Stream()):
        assert torch.cuda.Event(enable_timing=True).query()


def test_devices_in_arguments_become_the_host(pretended):
    assert torch.zeros(2, device="cuda").device.type == "cpu"
    assert torch.ones(2).to("cuda:0", torch.float16).dtype is torch.float16
    assert torch.ones(2).cuda().pin_memory().sum() == 2
    assert nn.Linear(2, 2).to(torch.device("cuda")).weight.device.type == "cpu"
    assert torch.device("cuda").type == "cuda"


def test_numbers_of_devices_become_the_host(pretended):
    assert torch.ones(2).to(0).device.type == "cpu"
    assert torch.ones(2).to(0, torch.float16).dtype is torch.float16
    assert torch.zeros(2, device=0).device.type == torch.ones(2).to(device=0).device.type == "cpu"
    assert nn.Linear(2, 2, device=0).to(0).to(device=0).cuda(0).weight.device.type == "cpu"
    assert nn.Linear(2, 2).to(torch.float16).weight.dtype is torch.float16
    assert torch.device(0) == torch.device("cuda", 0)
    assert torch.arange(6).view(2, 3).sum(0).tolist() == [3, 5, 7]
    with torch.cuda.device(0):
        assert torch.cuda.current_device() == 0


def test_a_generator_for_cuda_is_one_of_the_host(pretended):
    made = torch.Generator(device="cuda").manual_seed(3)
    again = torch.Generator("cuda:0").manual_seed(3)
    assert isinstance(made, torch.Generator) and isinstance(torch.default_generator, torch.Generator)
    values = torch.randn(2, device="cuda", generator=made)
    assert values.tolist() == torch.randn(2, generator=again).tolist()
    assert torch.utils.data.DataLoader([1, 2], shuffle=True, generator=torch.Generator(0)).generator is not None


def test_autocast_for_cuda_is_that_of_the_host(pretended):
    with torch.autocast("cuda", dtype=torch.float16):
        assert nn.functional.linear(torch.ones(2, 2), torch.ones(2, 2)).dtype is torch.bfloat16
    with torch.autocast("cuda", enabled=False):
        assert nn.functional.linear(torch.ones(2, 2), torch.ones(2, 2)).dtype is torch.float32


def test_optimizers_of_fake_parameters_take_their_foreach_loops(pretended):
    from torch.optim.optimizer import _default_to_fused_or_foreach

    model = nn.Linear(2, 2)
    FakeParameters().take_module(model)
    assert _default_to_fused_or_foreach(list(model.parameters()), False, False) == (False, True)


def test_nothing_is_compiled_or_pinned(pretended):
    model = nn.Linear(2, 2)
    assert torch.compile(model) is model
    assert torch.compile(mode="max-autotune")(model) is model
    assert not torch.utils.data.DataLoader([1, 2], pin_memory=True).pin_memory


def test_a_fake_tensor_gives_values_to_those_who_ask(pretended):
    parameters = FakeParameters()
    with parameters.mode:
        fake = torch.zeros(2, 3)
        assert is_fake(fake)
        ones = [[1.0] * 3] * 2
        assert fake.numpy().tolist() == fake.numpy(force=True).tolist() == ones
        assert numpy.asarray(fake).tolist() == numpy.asarray(fake, dtype="float16").tolist() == ones
        assert numpy.histogram(fake.data.cpu(), bins=2)[0].sum() == 6


def test_tensors_can_be_copied_while_others_are_fake(pretended):
    real = torch.ones(2)
    parameters = FakeParameters()
    with parameters.mode:
        fake = torch.zeros(2, 3, requires_grad=True)
        copied = copy.deepcopy({"real": real, "fake": fake, "again": fake})
    assert not is_fake(copied["real"]) and copied["real"].tolist() == [1.0, 1.0]
    assert is_fake(copied["fake"]) and copied["fake"].requires_grad and copied["fake"] is copied["again"]


def test_torch_is_as_it_was_afterwards():
    before = (torch.cuda.is_available, torch.compile, torch.amp.autocast_mode.autocast.__init__)
    patches = Patches()
    fake_cuda.install(patches, "T4", 2**30, (7, 5))
    assert torch.cuda.is_available() and not torch.cuda.is_bf16_supported()
    patches.restore()
    assert (torch.cuda.is_available, torch.compile, torch.amp.autocast_mode.autocast.__init__) == before
    assert torch.zeros(1, device="cpu").device.type == "cpu"


def test_the_types_that_autocast_was_asked_for_are_kept():
    patches = Patches()
    asked = fake_cuda.install(patches, "T4", 2**30, (7, 5)).autocast
    with torch.autocast("cuda", enabled=False), torch.autocast("cuda", torch.float32, False):
        assert asked == set()
    with torch.autocast("cuda"), torch.autocast("cuda", dtype=torch.bfloat16):
        assert asked == {"float16", "bfloat16"}
    patches.restore()


def test_a_thread_of_the_script_sees_the_card_too(pretended):
    with ThreadPoolExecutor(1) as pool:
        assert pool.submit(lambda: torch.ones(2).to(device=0).device.type).result() == "cpu"


def test_a_fake_value_is_written_as_a_number(pretended):
    parameters = FakeParameters()
    tensor = torch.tensor(3.0)
    parameters.take(tensor)
    recorder = SimpleNamespace(stack=[])
    with parameters.mode, LiveStorages(recorder).mode():
        assert f"{tensor:.2f} {tensor.long():3d}" == "1.00   1"
        with pytest.raises(TypeError):
            format(torch.zeros(2), ".2f")
