"""Which steps' graphs live, told from real graphs of torch."""

from __future__ import annotations

from collections import deque

import pytest
import torch

from autotune.probe import call_sites, kept_graphs

STEPS = 6


class Steps:
    """The losses of some steps; `numbers` are those at the ends of them."""

    def __init__(self):
        self.numbers = []

    def __iter__(self):
        weight = torch.ones(3, requires_grad=True)
        for _ in range(STEPS):
            loss = (weight * 2).sum()
            loss.backward()
            yield loss
            self.numbers.append(kept_graphs.sequence_number())


@pytest.fixture
def mine(monkeypatch):
    """This file counts as the user's."""
    monkeypatch.setattr(call_sites, "is_user", lambda name: name == __file__)


def test_a_list_of_losses_keeps_the_graphs_of_all_steps(mine):
    steps, losses = Steps(), []
    for loss in steps:
        losses.append(loss)
    found = kept_graphs.look(steps.numbers)
    assert found["num_steps"] == STEPS - 1
    assert (found["holder"]["name"], found["holder"]["file"]) == ("losses", __file__)
    assert found["num_filling"] == 0


def test_a_sum_of_losses_keeps_them_too(mine):
    steps, total = Steps(), 0
    for loss in steps:
        total = total + loss
    assert kept_graphs.look(steps.numbers)["num_steps"] == STEPS - 1
    assert kept_graphs.look(steps.numbers)["holder"]["name"] == "total"


def test_an_attribute_that_holds_them_is_named(mine):
    class Training:
        def __init__(self):
            self.curve = {}

        def run(self):
            steps = Steps()
            for loss in steps:
                self.curve[len(self.curve)] = [loss]
            del loss
            return kept_graphs.look(steps.numbers)

    assert Training().run()["holder"]["name"] == "self.curve"


@pytest.mark.parametrize("keep", [lambda loss: loss.detach(), lambda loss: loss.item()], ids=["detached", "a number"])
def test_what_is_detached_keeps_the_last_step_at_most(mine, keep):
    steps, losses = Steps(), []
    for loss in steps:
        losses.append(keep(loss))
    found = kept_graphs.look(steps.numbers)
    assert found["num_steps"] <= 1
    assert found["holder"] is None


def test_a_bounded_deque_of_graphs_ends_at_its_length(mine):
    steps, last = Steps(), deque(maxlen=100)
    for loss in steps:
        last.append(loss)
    assert kept_graphs.look(steps.numbers)["num_steps"] <= 1


@pytest.mark.parametrize(
    ("items", "maxlen", "filling"),
    [(STEPS, 1000, 1), (STEPS - 1, 1000, 0), (1000, 1000, 0), (STEPS, 999, 0), (STEPS, None, 0)],
)
def test_a_deque_fills_from_as_many_items_as_steps_until_it_is_full(items, maxlen, filling):
    before = kept_graphs.look(list(range(STEPS)))["num_filling"]
    rows = deque(range(items), maxlen=maxlen)
    assert kept_graphs.look(list(range(STEPS)))["num_filling"] - before == filling
    assert len(rows) == items


@pytest.mark.parametrize("numbers", [[], [5], [-1, -1, -1]])
def test_without_numbers_it_is_unknown(numbers):
    assert kept_graphs.look(numbers) is None


def test_a_torch_without_numbers_is_no_error(monkeypatch):
    monkeypatch.delattr(torch.autograd, "_get_sequence_nr")
    kept_graphs._count.cache_clear()
    assert kept_graphs.sequence_number() == -1
    kept_graphs._count.cache_clear()


def test_an_object_that_refuses_makes_it_unknown(monkeypatch):
    def refuse(*_):
        raise ReferenceError

    monkeypatch.setattr(kept_graphs, "_live", refuse)
    assert kept_graphs.look([0, 1, 2]) is None
