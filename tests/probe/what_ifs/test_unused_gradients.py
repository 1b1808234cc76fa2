from __future__ import annotations

import copy
import itertools

import pytest
import torch
from torch import nn

from autotune.probe.what_ifs import unused_gradients
from autotune.probe.what_ifs.unused_gradients import GradientWatch, ReducedBackwards


@pytest.fixture(autouse=True)
def our_files_are_the_users(monkeypatch):
    """pytest runs this file as a test: for the probe it is what the user wrote."""
    monkeypatch.setattr(unused_gradients.call_sites, "is_user", lambda file: file == __file__)


@pytest.fixture
def watched(probed):
    """watched(step, steps=4): the watch after that many calls of `step(number)`."""

    def run(step, steps=4):
        watch = GradientWatch(probed)
        stop = watch.start()
        for number in range(steps):
            watch.on_step()
            step(number)
        stop()
        watch.conclude()
        return watch

    return run


def layers(*widths):
    torch.manual_seed(0)
    pairs = itertools.pairwise(widths)
    return nn.Sequential(*(part for width, following in pairs for part in (nn.Linear(width, following), nn.Tanh())))


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.encoder, self.head = layers(4, 8, 8), layers(8, 1)

    def forward(self, x):
        return self.head(self.encoder(x))


def found(watch):
    return [(row["reason"], row["modules"]) for row in watch.rows()]


def head_alone(extra=lambda model: None, kind=torch.optim.SGD):
    """A model of which the optimizer has the head, and a step of its training; `extra(model)` precedes the update."""
    model = Model()
    optimizer = kind(model.head.parameters(), lr=0.1)

    def step(_number):
        loss = model(torch.ones(3, 4)).sum()
        loss.backward()
        extra(model)
        optimizer.step()
        optimizer.zero_grad()

    return model, step


def test_an_encoder_in_no_optimizer_is_named_with_its_share(watched):
    model, step = head_alone()
    (row,) = watched(step).rows()
    assert row["reason"] == "unowned" and row["modules"] == "model.encoder.*" and row["file"] == __file__
    assert row["parameters"] == sum(p.numel() for p in model.encoder.parameters())
    assert row["of_parameters"] == sum(p.numel() for p in model.parameters())


def test_torch_is_as_it_was(watched):
    backward, native = torch.autograd.backward, torch.Tensor.grad
    watched(head_alone()[1])
    assert torch.autograd.backward is backward and torch.Tensor.grad is native and "grad" not in vars(torch.Tensor)


def frozen(model):
    model.encoder.requires_grad_(False)


def clips_all(model):
    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)


def logs_norms(model):
    return [float(parameter.grad.norm()) for parameter in model.parameters()]


def updates_by_hand(model):
    for parameter in model.encoder.parameters():
        parameter.data -= 0.1 * parameter.grad


def drags_along(model):
    with torch.no_grad():
        for parameter in model.encoder.parameters():
            parameter.mul_(0.99)


def waits(model):
    for parameter in model.encoder.parameters():
        if not parameter._backward_hooks:
            parameter.register_hook(lambda grad: grad)


def waits_at_a_module(model):
    if not model.encoder._backward_hooks:
        model.encoder.register_full_backward_hook(lambda *_: None)


@pytest.mark.parametrize(
    "extra", [frozen, clips_all, logs_norms, updates_by_hand, drags_along, waits, waits_at_a_module]
)
@pytest.mark.filterwarnings("ignore:Full backward hook")
def test_nothing_is_unused_where_something_else_has_a_say(watched, extra):
    assert found(watched(head_alone(extra)[1])) == []


@pytest.mark.parametrize("extra", [copy.deepcopy, nn.Module.cpu])
def test_copying_and_moving_is_no_use_of_gradients(watched, extra):
    assert found(watched(head_alone(extra)[1])) == [("unowned", "model.encoder.*")]


def test_gradients_that_lie_in_a_buffer_of_several_may_be_read_as_one(watched):
    model, step = head_alone()
    sizes = [parameter.numel() for parameter in model.encoder.parameters()]
    for parameter, part in zip(model.encoder.parameters(), torch.zeros(sum(sizes)).split(sizes), strict=True):
        parameter.grad = part.view_as(parameter)
    assert found(watched(step)) == []


@pytest.mark.parametrize("every", [1, 2])
def test_a_second_optimizer_uses_them(watched, every):
    model = Model()
    first, second = (torch.optim.SGD(part.parameters(), lr=0.1) for part in (model.head, model.encoder))

    def step(number):
        model(torch.ones(3, 4)).sum().backward()
        first.step()
        first.zero_grad()
        if number % every == 0:
            second.step()
            second.zero_grad()

    assert found(watched(step)) == []


def test_one_that_does_not_step_while_it_is_watched_may_do_so_later(watched):
    model = Model()
    first = torch.optim.SGD(model.head.parameters(), lr=0.1)
    second = torch.optim.SGD(model.encoder.parameters(), lr=0.1)

    def step(number):
        model(torch.ones(3, 4)).sum().backward()
        first.step()
        first.zero_grad()
        if number > 10:
            second.step()

    assert found(watched(step)) == []


def gan(is_detached=False, clears_with_zeros=False, normalises=False):
    """(generator, discriminator, a step): the judge's update first, then the generator's."""
    draws, judges = layers(4, 8, 8), layers(8, 8, 1)
    if normalises:
        torch.nn.utils.parametrizations.weight_norm(judges[0])
    first, second = (torch.optim.Adam(one.parameters(), lr=0.01) for one in (judges, draws))

    def step(_number):
        fake = draws(torch.ones(3, 4))
        first.zero_grad(set_to_none=not clears_with_zeros)
        (judges(fake.detach() if is_detached else fake) - judges(torch.ones(3, 8))).sum().backward(retain_graph=True)
        first.step()
        second.zero_grad(set_to_none=not clears_with_zeros)
        judges(draws(torch.ones(3, 4))).sum().backward()
        second.step()

    return draws, judges, step


@pytest.mark.parametrize("clears_with_zeros", [False, True])
def test_a_generator_in_the_backward_of_the_discriminator(watched, clears_with_zeros):
    draws, judges, step = gan(clears_with_zeros=clears_with_zeros)
    watch = watched(step)
    assert found(watch) == [("discarded", "draws.*")]
    (reduced,) = watch.reduced.values()
    assert {id(one) for one in reduced.inputs} == {id(one) for one in judges.parameters()}
    assert {id(one) for one in reduced.discarded} == {id(one) for one in draws.parameters()}


@pytest.mark.parametrize("normalises", [False, True])
def test_a_detached_one_and_a_discriminator_on_the_way_to_the_generator_are_as_they_should_be(watched, normalises):
    assert found(watched(gan(is_detached=True, normalises=normalises)[2])) == []


def test_micro_batches_that_add_up_are_all_used(watched):
    model = Model()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)

    def step(_number):
        for _ in range(3):
            model(torch.ones(3, 4)).sum().backward()
        optimizer.step()
        optimizer.zero_grad()

    assert found(watched(step)) == []


def test_a_closure_may_run_several_backwards(watched):
    model, _ = head_alone()
    optimizer = torch.optim.LBFGS(model.head.parameters(), lr=0.1, max_iter=3)

    def step(_number):
        def closure():
            optimizer.zero_grad()
            loss = model(torch.ones(3, 4)).square().sum()
            loss.backward()
            return loss

        optimizer.step(closure)

    assert set(found(watched(step))) == {("unowned", "model.encoder.*")}


def test_gradients_of_what_is_made_anew_in_each_step_stay(watched, probed):
    """An adversarial example is read by the script, a layer in no optimizer is not."""
    model = Model()
    optimizer = torch.optim.SGD(model.head.parameters(), lr=0.1)
    seen = []

    def step(_number):
        x = torch.ones(3, 4, requires_grad=True)
        model(x).sum().backward()
        seen.append(x.grad.clone())
        optimizer.step()
        optimizer.zero_grad()

    watch = watched(step)
    (reduced,) = watch.reduced.values()
    assert reduced.has_passing
    stop = ReducedBackwards(probed, watch.reduced).start()
    step(0)
    stop()
    assert seen[-1] is not None and seen[-1].abs().sum() > 0


def test_a_gradient_on_the_way_that_is_kept_is_wanted(watched):
    model = Model()
    optimizer = torch.optim.SGD(model.head.parameters(), lr=0.1)

    def step(_number):
        hidden = model.encoder(torch.ones(3, 4))
        hidden.retain_grad()
        model.head(hidden).sum().backward()
        assert hidden.grad is not None
        optimizer.step()
        optimizer.zero_grad()

    assert found(watched(step)) == []


@pytest.mark.parametrize("options", [{"create_graph": True}, {"inputs": "all"}])
@pytest.mark.filterwarnings("ignore:Using backward")
def test_a_backward_that_says_more_is_left_alone(watched, options):
    model = Model()
    optimizer = torch.optim.SGD(model.head.parameters(), lr=0.1)
    given = {**options, **({"inputs": list(model.parameters())} if "inputs" in options else {})}

    def step(_number):
        model(torch.ones(3, 4)).sum().backward(**given)
        optimizer.step()
        optimizer.zero_grad()

    assert found(watched(step)) == []


def test_so_is_one_with_another_inside(watched):
    model = Model()
    optimizer = torch.optim.SGD(model.head.parameters(), lr=0.1)

    def step(_number):
        x = torch.ones(3, 4, requires_grad=True)
        hidden = torch.utils.checkpoint.checkpoint(model.encoder, x, use_reentrant=True)
        model.head(hidden).sum().backward()
        optimizer.step()
        optimizer.zero_grad()

    assert found(watched(step)) == []


def test_a_scaler_reads_those_that_it_unscales(watched):
    model = Model()
    optimizer, scaler = torch.optim.SGD(model.head.parameters(), lr=0.1), torch.amp.GradScaler("cpu")

    def step(_number):
        scaler.scale(model(torch.ones(3, 4)).sum()).backward()
        scaler.step(optimizer)
        scaler.update()
        optimizer.zero_grad()

    assert found(watched(step)) == [("unowned", "model.encoder.*")]


def trained(make, is_reduced, watched, probed):
    """Weights after three steps of what `make()` gives, (modules.., step), with or without its unused gradients."""
    *modules, step = make()
    watch = watched(step)
    reduced = ReducedBackwards(probed, watch.reduced if is_reduced else {})
    stop = reduced.start()
    for number in range(3):
        reduced.on_step()
        step(number)
    stop()
    return [parameter.detach().clone() for module in modules for parameter in module.parameters()], watch.reduced


@pytest.mark.parametrize("make", [head_alone, gan])
def test_the_updates_are_the_same_without_them(make, watched, probed):
    before, _ = trained(make, False, watched, probed)
    after, reduced = trained(make, True, watched, probed)
    assert reduced and all(map(torch.equal, before, after))


def test_without_them_the_encoder_is_left_without_gradients(watched, probed):
    model, step = head_alone()
    watch = watched(step)
    model.zero_grad()
    reduced = ReducedBackwards(probed, watch.reduced)
    stop = reduced.start()
    reduced.on_step()
    step(0)
    stop()
    assert all(parameter.grad is None for parameter in model.encoder.parameters())
    step(0)
    assert all(parameter.grad is not None for parameter in model.encoder.parameters())


def test_the_watch_is_open_until_what_nothing_reads_is_cleared(probed):
    model = Model()
    head = torch.optim.SGD(model.head.parameters(), lr=0.1)
    encoder = torch.optim.SGD(model.encoder.parameters(), lr=0.1)
    watch = GradientWatch(probed)
    stop = watch.start()
    said = []
    for number in range(9):
        watch.on_step()
        head.zero_grad()
        model(torch.ones(3, 4)).sum().backward()
        head.step()
        if number % 3 == 2:
            encoder.zero_grad()
        said.append(watch.awaits_clearing())
    stop()
    # The third step clears what three backwards have added up.
    assert said == [True] * 2 + [False] * 7
