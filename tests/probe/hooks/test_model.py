from __future__ import annotations

import threading

import pytest
import torch
from torch.utils.checkpoint import checkpoint

GRAD, TRAIN = 1, 2


@pytest.fixture
def model():
    return torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.ReLU()))


def only(session, kind):
    return [event for event in session.recorder.events if event[0] == kind]


def test_nested_modules_are_one_forward(probed, model, kinds):
    model(torch.ones(2, 4))
    assert kinds() == ["forward"]


def test_a_forward_carries_its_mode_and_its_model(probed, model):
    other = torch.nn.Linear(4, 4)
    model(torch.ones(1, 4))
    other(torch.ones(1, 4))
    model.eval()
    with torch.no_grad():
        model(torch.ones(1, 4))
    model(torch.ones(1, 4))
    flags = [(event[3], event[4]) for event in only(probed, "forward")]
    assert flags == [(0, GRAD | TRAIN), (1, GRAD | TRAIN), (0, 0), (0, GRAD)]


def test_mode_changes_of_a_known_root_are_marked_once(probed, model):
    model(torch.ones(1, 4))
    model.eval()
    model.train()
    assert [(event[3], event[4]) for event in only(probed, "mode")] == [(0, 0), (0, 1)]
    assert [part.training for part in model.modules()] == [True] * 5


def test_a_forward_in_another_thread_is_not_the_training_threads(probed, model, kinds):
    thread = threading.Thread(target=model, args=(torch.ones(1, 4),))
    thread.start()
    thread.join()
    assert kinds() == []


@pytest.mark.parametrize("name", ["method", "autograd.backward", "autograd.grad"])
def test_every_way_to_a_gradient_is_a_backward(probed, model, kinds, name):
    loss = model(torch.ones(2, 4)).sum()
    {
        "method": loss.backward,
        "autograd.backward": lambda: torch.autograd.backward(loss),
        "autograd.grad": lambda: torch.autograd.grad(loss, list(model.parameters())),
    }[name]()
    assert kinds() == ["forward", "backward"]
    assert probed.recorder.num_backwards == 1
    assert probed.recorder.failed_phase is None


def test_the_first_backward_of_another_thread_makes_it_the_training_thread(probed, model, kinds):
    def train():
        for _ in range(2):
            model(torch.ones(2, 4)).sum().backward()

    thread = threading.Thread(target=train)
    thread.start()
    thread.join()
    assert kinds() == ["backward", "forward", "backward"]


@pytest.mark.parametrize("reentrant", [True, False])
def test_activation_checkpointing_is_recomputed_inside_backward(probed, reentrant):
    class Model(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.layers = torch.nn.ModuleList(torch.nn.Linear(4, 4) for _ in range(3))

        def forward(self, x):
            for layer in self.layers:
                x = checkpoint(layer, x, use_reentrant=reentrant)
            return x

    model = Model()
    model(torch.ones(2, 4, requires_grad=True)).sum().backward()
    (forward,) = only(probed, "forward")
    (backward,) = only(probed, "backward")
    again = only(probed, "recompute")
    assert len(again) == 3
    assert all(backward[1] <= event[1] <= event[2] <= backward[2] for event in again)
    assert forward[2] <= backward[1]
    assert probed.recorder.num_backwards == 1
    assert probed.recorder.failed_phase is None


def test_a_failing_forward_names_its_phase_and_leaves_the_hooks_usable(probed, model, kinds):
    with pytest.raises(RuntimeError):
        model(torch.ones(2, 5))
    assert probed.recorder.failed_phase == "forward"
    model(torch.ones(2, 4))
    assert kinds() == ["forward", "forward"]
    assert probed.recorder.stack == []


def test_a_failing_backward_names_its_phase(probed):
    loss = torch.nn.Linear(2, 1)(torch.ones(1, 2)).sum()
    loss.backward()
    with pytest.raises(RuntimeError):
        loss.backward()
    assert probed.recorder.failed_phase == "backward"
    assert probed.recorder.in_backward is False


def test_a_model_is_known_by_the_object_and_not_by_its_address(probed):
    for _ in range(3):
        torch.nn.Linear(2, 2)(torch.ones(1, 2))
    assert [event[3] for event in only(probed, "forward")] == [0, 1, 2]


def test_the_models_site_is_the_users_line(probed, model):
    model(torch.ones(1, 4))
    site = probed.models[0]["site"]
    assert (site["file"], site["is_user"]) == (__file__, True)
    assert site["function"] == "test_the_models_site_is_the_users_line"


@pytest.mark.parametrize(("enabled", "expected"), [(True, "bfloat16"), (False, "off")])
def test_autocast_is_seen_at_a_training_forward(probed, model, enabled, expected):
    with torch.autocast("cpu", dtype=torch.bfloat16, enabled=enabled):
        model(torch.ones(1, 4))
    assert probed.torch_state["autocast"] == expected


def test_autocast_that_torch_does_not_tell_of_is_unknown(probed, model, monkeypatch):
    def is_autocast_enabled():
        return False

    monkeypatch.setattr(torch, "is_autocast_enabled", is_autocast_enabled)  # torch 2.3 asks of CUDA alone
    model(torch.ones(1, 4))
    assert "autocast" not in probed.torch_state


def test_autocast_of_parameters_without_data_is_unknown(probed):
    with torch.device("meta"):
        torch.nn.Linear(4, 4)(torch.ones(1, 4))
    assert "autocast" not in probed.torch_state


def test_autocast_of_an_evaluation_says_nothing(probed, model):
    model.eval()
    with torch.autocast("cpu", dtype=torch.bfloat16):
        model(torch.ones(1, 4))
    assert "autocast" not in probed.torch_state


def test_hooks_of_the_user_still_run_and_results_are_theirs(probed, model):
    seen = []
    model.register_forward_hook(lambda module, args, output: seen.append(output) or output * 2)
    output = model(torch.ones(1, 4))
    assert torch.equal(output, seen[0] * 2)


class ModuleTransform(torch.utils.data.Dataset):
    """A dataset whose transform is a module, as in torchvision v2."""

    def __init__(self):
        self.transform = torch.nn.Linear(4, 4)

    def __len__(self):
        return 4

    def __getitem__(self, index):
        with torch.no_grad():
            return self.transform(torch.ones(4))


def test_a_module_that_transforms_data_is_no_forward(probed, model, kinds):
    for batch in torch.utils.data.DataLoader(ModuleTransform(), batch_size=2):
        model(batch)
    assert kinds("forward") == ["forward", "forward"]
    assert len(probed.models) == 1


class CallsBeside(torch.autograd.Function):
    """A backward during which another thread, started by Python, calls a module."""

    @staticmethod
    def forward(ctx, x):
        return x.clone()

    @staticmethod
    def backward(ctx, gradient):
        thread = threading.Thread(target=torch.nn.Linear(4, 4), args=(torch.ones(1, 4),))
        thread.start()
        thread.join()
        return gradient


def test_another_threads_module_inside_backward_is_no_recomputation(probed, model, kinds):
    CallsBeside.apply(model(torch.ones(1, 4))).sum().backward()
    assert kinds() == ["forward", "backward"]


class AutocastInside(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(4, 4)

    def forward(self, x):
        with torch.autocast("cpu", dtype=torch.bfloat16):
            return self.layer(x)


def test_autocast_inside_the_models_own_forward_is_seen(probed):
    AutocastInside()(torch.ones(1, 4))
    assert probed.torch_state["autocast"] == "bfloat16"


def test_anomaly_detection_around_backward_only_is_seen(probed, model):
    with pytest.warns(UserWarning, match="Anomaly Detection"), torch.autograd.detect_anomaly():
        model(torch.ones(1, 4)).sum().backward()
    assert probed.torch_state["anomaly"] is True


def test_the_loss_is_what_backward_is_called_on(probed, model):
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    loss = model(torch.ones(2, 4)).sum()
    loss.backward()
    torch.autograd.backward(tensors=(model(torch.ones(2, 4)).sum() * 2,))
    torch.autograd.grad(model(torch.ones(2, 4)).sum(), list(model.parameters()))
    optimizer.step()
    assert probed.losses.rows(probed.recorder.thread) == [pytest.approx(3 * loss.item())]


def test_the_cost_of_the_hook_is_measured_below_a_profiler_that_keeps_stacks(probed):
    activities = [torch.profiler.ProfilerActivity.CPU]
    with torch.profiler.profile(activities=activities, with_stack=True):
        probed.overhead.start()
        probed.overhead.stop()
    assert probed.overhead.row()["event_ns"] >= 0
