from __future__ import annotations

import pytest
import torch
from torch import nn

from autotune.probe.what_ifs import second_derivatives
from autotune.probe.what_ifs.second_derivatives import SecondDerivativeWatch, without


@pytest.fixture(autouse=True)
def our_files_are_the_users(monkeypatch):
    """pytest runs this file as a test: for the probe it is what the user wrote."""
    monkeypatch.setattr(second_derivatives.call_sites, "is_user", lambda file: file == __file__)


@pytest.fixture
def watched(probed):
    """watched(step, steps=4): the watch after that many calls of `step(model)`."""

    def run(step, steps=4):
        watch, model = SecondDerivativeWatch(probed), made()
        stop = watch.start()
        for _ in range(steps):
            step(model)
            model.zero_grad()
        stop()
        watch.conclude()
        return watch

    return run


def made():
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 1))


def derivative(model):
    x = torch.ones(3, 4, requires_grad=True)
    return x, torch.autograd.grad(model(x).sum(), x, create_graph=True)[0]


def sign(model):
    x, gradient = derivative(model)
    model(x + 0.1 * gradient.sign()).sum().backward()


def detached(model):
    x, gradient = derivative(model)
    model(x + 0.1 * gradient.detach()).sum().backward()


def read(model):
    x, gradient = derivative(model)
    float(gradient.detach().norm())
    model(x).sum().backward()


def left_by_backward(model):
    loss = model(torch.ones(3, 4)).sum()
    loss.backward(create_graph=True)


def by_a_name_of_its_own(model, grad=torch.autograd.grad):
    x = torch.ones(3, 4, requires_grad=True)
    (gradient,) = grad(model(x).sum(), x, create_graph=True)
    model(x + gradient.sign()).sum().backward()


def penalty(model):
    _, gradient = derivative(model)
    (gradient.norm(dim=1) - 1).square().mean().backward()


def penalty_beside_a_sign(model):
    _, gradient = derivative(model)
    (gradient.sign() + 0.01 * gradient).square().mean().backward()


def penalty_of_what_backward_left(model):
    model(torch.ones(3, 4)).sum().square().backward(create_graph=True)
    sum(p.grad.square().sum() for p in model.parameters()).backward()


def by_name(model):
    weights = dict(model.named_parameters())
    loss = model(torch.ones(3, 4)).square().sum()
    made = torch.autograd.grad(loss, tuple(weights.values()), create_graph=True)
    sum(one.square().sum() for one in made).backward()


def many_at_once(model):
    x = torch.ones(3, 4, requires_grad=True)
    y = model(x).square()
    rows = torch.eye(3)[:, :, None]
    (made,) = torch.autograd.grad(y, x, rows, create_graph=True, is_grads_batched=True)
    made.square().sum().backward()


def inside_of_vmap(model):
    """An inner step for each of several tasks, as second-order MAML takes it."""
    weights = dict(model.named_parameters())

    def loss(given, x):
        return torch.func.functional_call(model, given, (x,)).square().mean()

    def adapted(x):
        inner = torch.func.grad(loss)(weights, x)
        return loss({name: weights[name] - 0.1 * inner[name] for name in weights}, x)

    torch.func.vmap(adapted)(torch.ones(5, 3, 4)).mean().backward()


def by_torch_func(model):
    weights = dict(model.named_parameters())
    inner = torch.func.grad(lambda x: torch.func.functional_call(model, weights, (x,)).sum())(torch.ones(3, 4))
    inner.square().sum().backward()


def without_a_graph(model):
    x = torch.ones(3, 4, requires_grad=True)
    (gradient,) = torch.autograd.grad(model(x).sum(), x)
    model(x + gradient.sign()).sum().backward()


@pytest.mark.filterwarnings("ignore:Using backward")
@pytest.mark.parametrize("step", [sign, detached, read, left_by_backward, by_a_name_of_its_own])
def test_a_graph_to_which_nothing_comes_back_is_unused(watched, step):
    (row,) = watched(step).rows()
    assert row["file"] == __file__
    code = (step if step in (left_by_backward, by_a_name_of_its_own) else derivative).__code__
    assert code.co_firstlineno < row["line"] <= code.co_firstlineno + 4


@pytest.mark.filterwarnings("ignore:Using backward")
@pytest.mark.parametrize(
    "step",
    [
        penalty,
        penalty_beside_a_sign,
        penalty_of_what_backward_left,
        by_name,
        many_at_once,
        inside_of_vmap,
        by_torch_func,
        without_a_graph,
    ],
)
def test_a_graph_to_which_gradients_come_back_is_used(watched, step):
    assert watched(step).rows() == []


def test_a_single_call_tells_nothing(watched):
    assert watched(sign, steps=1).rows() == []


def test_a_line_that_is_used_now_and_then_is_used(watched):
    steps = iter([sign, penalty, sign, sign])
    assert watched(lambda model: next(steps)(model)).rows() == []


def test_torch_is_as_it_was(watched):
    run = torch.autograd._engine_run_backward
    watched(sign)
    assert torch.autograd._engine_run_backward is run


def test_a_torch_without_that_function_is_not_watched(probed, monkeypatch):
    monkeypatch.delattr(torch.autograd, "_engine_run_backward")
    watch = SecondDerivativeWatch(probed)
    watch.start()()
    watch.conclude()
    assert not watch.is_possible and watch.rows() == [] and not hasattr(torch.autograd, "_engine_run_backward")


@pytest.mark.parametrize("step", [sign, detached, read])
def test_a_replay_without_it_has_the_same_gradients(watched, probed, step):
    unused = watched(step).unused
    model, nodes = made(), []

    def gradients():
        model.zero_grad()
        step(model)
        return [p.grad.clone() for p in model.parameters()]

    native = torch.autograd._engine_run_backward
    torch.autograd._engine_run_backward = lambda *given, **named: (nodes.append(given[3]), native(*given, **named))[1]
    try:
        before = gradients()
        undo = without(probed, unused)
        after = gradients()
        undo()
    finally:
        torch.autograd._engine_run_backward = native
    assert all(map(torch.equal, before, after))
    assert nodes == [True, False, False, False]


def test_a_graph_that_goes_backward_again_is_kept(watched, probed):
    def both(model):
        x = torch.ones(3, 4, requires_grad=True)
        loss = model(x).sum()
        (gradient,) = torch.autograd.grad(loss, x, create_graph=True)
        (loss + model(x + gradient.sign()).sum()).backward()

    undo = without(probed, watched(both).unused)
    both(made())
    undo()
