"""Passes through one graph, in a session of a small loop whose loss is computed in different ways."""

from __future__ import annotations

import contextlib
import sys

import pytest
import torch
from torch.utils.data import DataLoader, TensorDataset

from autotune.probe.lines.backward_passes import RepeatedNodes
from autotune.probe.what_ifs import schedule


class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.inner, self.head = torch.nn.Linear(8, 32), torch.nn.Linear(32, 4)

    def forward(self, x):
        return self.head(torch.tanh(self.inner(x)))


def by_parameter(model, x):
    loss = model(x).square().mean()
    grads = [torch.autograd.grad(loss, one, retain_graph=True)[0] for one in model.parameters()]
    return loss * sum(one.abs().mean() for one in grads).detach()


def at_once(model, x):
    loss = model(x).square().mean()
    grads = torch.autograd.grad(loss, list(model.parameters()), retain_graph=True)
    return loss * sum(one.abs().mean() for one in grads).detach()


def of_the_whole_batch(model, x):
    full = torch.autograd.functional.jacobian(model, x, create_graph=True)
    return full.square().mean()


def inner_steps(model, x):
    """Each pass goes through a graph of its own."""
    weight = model.inner.weight
    for _ in range(5):
        loss = (x @ weight.T).square().mean()
        weight = weight - torch.autograd.grad(loss, weight, create_graph=True)[0]
    return (x @ weight.T).square().mean()


def coordinates(model, x):
    """A helper that two lines call."""
    x = x.requires_grad_()
    y = model(x)
    first = slope(y[:, 0], x)
    second = slope(y[:, 1], x)
    return (first - second).square().mean()


def slope(y, x):
    return torch.autograd.grad(y.sum(), x, create_graph=True)[0]


def curvature(model, x):
    """A power iteration, whose product stands in the head of a comprehension: that runs once for each call."""
    loss = model(x).square().mean()
    grads = torch.autograd.grad(loss, list(model.parameters()), create_graph=True)
    vector = [torch.ones_like(one) for one in grads]
    for _ in range(5):
        vector = product(grads, vector, list(model.parameters()))
    return loss + sum(one.detach().abs().mean() for one in vector)


def product(grads, vector, parameters):
    dot = sum((g * v).sum() for g, v in zip(grads, vector, strict=True))
    return [one.detach() for one in torch.autograd.grad(dot, parameters, retain_graph=True)]


@contextlib.contextmanager
def quiet():
    yield


@quiet()
def differentiated(output, parameters):
    return torch.autograd.grad(output, parameters, retain_graph=True)


def behind_a_decorator(model, x):
    """The frames of contextlib lie between the loop and the pass."""
    loss = model(x).square().mean()
    for _ in range(4):
        differentiated(loss, list(model.parameters()))
    return loss


def one_by_one(model, x):
    """The residual of a network that solves an equation, each derivative by a call of its own."""
    x, t = x[:, :4].requires_grad_(), x[:, 4:].requires_grad_()
    u = model(torch.cat([x, t], dim=1))[:, 0]
    u_x = derivative(u, x)
    u_t = derivative(u, t)
    return (u_x + u_t).square().mean()


def derivative(u, by):
    return torch.autograd.grad(u, by, torch.ones_like(u), create_graph=True)[0]


def two_of_the_parameters(model, x):
    """And then the backward pass of the loss, which goes through the graph for the first time on its own behalf."""
    loss = model(x).square().mean()
    for one in (model.inner.weight, model.head.weight):
        torch.autograd.grad(loss, one, retain_graph=True)
    return loss


def of_a_sum(model, x):
    x, t = x[:, :4].requires_grad_(), x[:, 4:].requires_grad_()
    u = model(torch.cat([x, t], dim=1))[:, 0]
    u_x = torch.autograd.grad(u.sum(), x, create_graph=True)[0]
    u_t = torch.autograd.grad(u.sum(), t, create_graph=True)[0]
    return (u_x + u_t).square().mean()


def all_inputs(model, x):
    x, t = x[:, :4].requires_grad_(), x[:, 4:].requires_grad_()
    u = model(torch.cat([x, t], dim=1))[:, 0]
    u_x, u_t = torch.autograd.grad(u, (x, t), torch.ones_like(u), create_graph=True)
    return (u_x + u_t).square().mean()


def by_sample(model, x):
    losses = model(x).square().mean(dim=1)
    for one in losses:
        one.backward(retain_graph=True)
    return losses.mean()


def by_element(model, x):
    y = model(x)
    for sample in range(len(y)):
        y[sample, 0].backward(retain_graph=True)
    return y.mean()


def by_column(model, x):
    y = model(x)
    for column in range(4):
        y[:, column].sum().backward(retain_graph=True)
    return y.mean()


def by_task(model, x):
    y = model(x)
    for loss in torch.stack([y[:, column].square().mean() for column in range(4)]):
        loss.backward(retain_graph=True)
    return y.mean()


def by_mean(model, x):
    means = model(x).square().mean(dim=0)
    for one in means:
        one.backward(retain_graph=True)
    return means.mean()


def weighed(model, x):
    """Two products of the Jacobian: other vectors, other numbers."""
    x = x.requires_grad_()
    y = model(x)
    both = [torch.autograd.grad(y, x, torch.full_like(y, by), create_graph=True)[0] for by in (2.0, 3.0)]
    return (both[0] - both[1]).square().mean()


@pytest.fixture
def operations(attach, left, monkeypatch):
    """operations(loss): the Recording's operations of a training by that loss."""
    monkeypatch.setattr(schedule, "PHASE_S", 0.0)
    monkeypatch.setattr(schedule, "SHORT_S", 0.0)
    monkeypatch.setattr(schedule.torch_settings, "choices", lambda _: [])
    monkeypatch.setattr(sys, "excepthook", sys.excepthook)
    monkeypatch.setattr(schedule, "LOOKS", (("operations", {}),))

    def train(loss):
        session = attach(steps=4, warmup=1)
        session.wait_share = lambda: 0.0
        model = Model()
        optimizer = torch.optim.SGD(model.parameters(), lr=0.0)
        with pytest.raises(left):
            for (x,) in DataLoader(TensorDataset(torch.randn(16384, 8)), batch_size=4):
                loss(model, x).backward()
                optimizer.step()
                optimizer.zero_grad()
            raise AssertionError("the data ended before the probe left")
        assert session.recorder.passes is None
        return session.lines["operations"]

    return train


@pytest.fixture
def passes(operations):
    """passes(loss): its repeated_passes, and the time of all nodes of the backward pass."""

    def train(loss):
        recorded = operations(loss)
        return recorded["repeated_passes"], recorded["backward_ns"]

    return train


def line(function, after):
    return function.__code__.co_firstlineno + after


def test_a_pass_for_each_parameter_is_seen_where_it_is_started(passes):
    (row,), backward_ns = passes(by_parameter)
    assert row["passes"] == 4
    assert 0 < row["again_ns"] < backward_ns
    assert [tuple(frame[:2]) for frame in row["frames"]][-1] == (__file__, line(by_parameter, 2))
    (comprehension,) = [loop for loop in row["loops"] if loop["kind"] == "comprehension"]
    assert comprehension["line"] == line(by_parameter, 2)
    assert (row["frames"][row["looping_frame"]][1], row["callee"]) == (line(by_parameter, 2), "")


def test_the_frames_of_a_decorator_are_no_library_that_loops(passes):
    (row, *_), _ = passes(behind_a_decorator)
    assert (row["passes"], row["callee"]) == (4, "")
    assert row["frames"][row["looping_frame"]][2] == "behind_a_decorator"


def test_of_a_jacobian_of_the_batch_each_output_of_each_sample_is_a_pass(passes):
    """And what they make for the second derivative is as needless: most of the time is there."""
    rows, backward_ns = passes(of_the_whole_batch)
    assert rows[0]["passes"] == 4 * 4
    assert tuple(rows[0]["frames"][-1][:2]) == (__file__, line(of_the_whole_batch, 1))
    assert rows[0]["again_ns"] > 0.45 * backward_ns  # 0.9 on a quiet machine; 0.3 without the second derivative's
    assert (rows[0]["frames"][rows[0]["looping_frame"]][2], rows[0]["callee"]) == ("of_the_whole_batch", "autograd")


def test_the_loop_of_passes_is_in_the_function_that_was_called_once_for_all(passes):
    (row, *_), _ = passes(curvature)
    assert (row["passes"], row["frames"][-1][2]) == (5, "product")
    assert (row["frames"][row["looping_frame"]][2], row["callee"]) == ("curvature", "")
    assert [(loop["kind"], loop["carried"]) for loop in row["loops"]] == [("for", ["vector"])]


@pytest.mark.parametrize(
    ("loss", "are_of_columns"),
    [
        (by_sample, False),
        (by_element, False),
        (by_column, True),
        (by_task, False),
        (by_mean, True),
        (by_parameter, False),
    ],
)
def test_whether_each_pass_derives_a_column_of_a_tensor(passes, loss, are_of_columns):
    (row, *_), _ = passes(loss)
    assert (row["passes"], row["are_of_columns"]) == (4, are_of_columns)
    assert row["nodes"] >= 3


@pytest.mark.parametrize("loss", [at_once, inner_steps, coordinates])
def test_one_pass_for_all_graphs_of_their_own_and_calls_from_several_lines_are_no_repetition(passes, loss):
    rows, _ = passes(loss)
    assert rows == []


def test_calls_that_derive_one_output_by_one_input_each_are_seen_at_the_lines_that_part(operations):
    """And the nodes that the second one made for the second derivative are as needless."""
    recorded = operations(one_by_one)
    (row,) = recorded["derived_one_by_one"]
    assert row["passes"] == 2
    assert [tuple(place) for place in row["lines"]] == [
        (__file__, line(one_by_one, 4), "one_by_one"),
        (__file__, line(one_by_one, 5), "one_by_one"),
    ]
    assert 0 < row["again_ns"] < recorded["backward_ns"]
    assert recorded["repeated_passes"] == []


def test_sums_of_one_output_are_one_output(operations):
    (row,) = operations(of_a_sum)["derived_one_by_one"]
    assert [tuple(place[:2]) for place in row["lines"]] == [
        (__file__, line(of_a_sum, 3)),
        (__file__, line(of_a_sum, 4)),
    ]


def test_the_backward_pass_of_the_loss_is_no_repetition(operations, monkeypatch):
    nodes, ran = [], RepeatedNodes.ran

    def noted(self, number, moment, length, made_by):
        again, one = ran(self, number, moment, length, made_by), self._pass_at(moment)
        nodes.append((one is not None and one.output is None, again))
        return again

    monkeypatch.setattr(RepeatedNodes, "ran", noted)
    (row,) = operations(two_of_the_parameters)["derived_one_by_one"]
    assert row["passes"] == 2
    assert any(again is not None for _, again in nodes)
    assert {again for is_of_loss, again in nodes if is_of_loss} == {None}


def test_a_call_on_one_line_of_a_loop_is_seen_there(operations):
    (row,) = operations(by_parameter)["derived_one_by_one"]
    assert row["passes"] == 4
    assert [tuple(place[:2]) for place in row["lines"]] == [(__file__, line(by_parameter, 2))]


@pytest.mark.parametrize("loss", [all_inputs, weighed, coordinates, inner_steps, of_the_whole_batch, curvature])
def test_one_call_for_all_inputs_and_derivatives_of_something_else_are_not_one_by_one(operations, loss):
    assert operations(loss)["derived_one_by_one"] == []
