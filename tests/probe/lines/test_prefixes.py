"""Inputs that grow by one element, call after call, of models that are called here and in functions of the user's."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from autotune.probe import call_sites
from autotune.probe.lines.prefixes import GrowingInputs


@pytest.fixture
def watched(monkeypatch):
    """watched(generate): its rows, after generate(model) has called a model that tells the watch of each call."""
    monkeypatch.setattr(call_sites, "is_user", lambda filename: filename == __file__)

    def run(generate, grad=False):
        watch = GrowingInputs()
        inner = nn.Embedding(50, 4)

        def model(*args, **kwargs):
            watch.note(inner, args, kwargs)
            return len(args)

        with torch.set_grad_enabled(grad):
            generate(model)
        return watch.rows()

    return run


def without_a_cache(model, batch=2, start=5, count=8):
    tokens = torch.zeros(batch, start, dtype=torch.long)
    for _ in range(count):
        model(tokens)
        tokens = torch.cat([tokens, tokens[:, :1]], dim=1)


def with_a_cache(model):
    for length in range(5, 20):
        model(input_ids=torch.zeros(2, 1), attention_mask=torch.zeros(2, length))


def test_each_call_with_one_element_more_is_a_run_at_the_line_that_calls(watched):
    (row,) = watched(without_a_cache)
    assert (row["file"], row["function"]) == (__file__, "model")
    assert (row["elements"], row["needed"]) == (sum(range(5, 13)), 12)


def test_runs_of_one_line_are_added_up(watched):
    def twice(model):
        without_a_cache(model)
        without_a_cache(model, batch=3)
        without_a_cache(model, count=7)

    (row,) = watched(twice)
    assert (row["elements"], row["needed"]) == (2 * sum(range(5, 13)), 24)


def test_keywords_of_libraries_are_known(watched):
    def generate(model):
        for length in range(5, 20):
            model(attention_mask=torch.zeros(2, length), input_ids=torch.zeros(2, length))

    assert len(watched(generate)) == 1


@pytest.mark.parametrize(
    "generate",
    [
        with_a_cache,
        lambda model: without_a_cache(model, count=7),
        lambda model: [model(torch.zeros(2, 16)) for _ in range(20)],
        lambda model: [model(torch.zeros(number, 3 + number)) for number in range(1, 20)],
        lambda model: [model(torch.zeros(number)) for number in range(1, 20)],
        lambda model: [model([1] * number) for number in range(1, 20)],
    ],
    ids=["a cache", "too few", "one length", "another batch", "no second dimension", "no tensor"],
)
def test_other_calls_are_none(watched, generate):
    assert watched(generate) == []


def test_calls_with_gradients_are_none(watched):
    assert watched(without_a_cache, grad=True) == []


def test_a_line_whose_calls_train_too_is_left_out(watched):
    def both(model):
        without_a_cache(model)
        with torch.enable_grad():
            model(torch.zeros(2, 5))

    assert watched(both) == []


def test_the_target_of_a_model_with_two_sequences_comes_first(watched):
    def generate(model):
        for length in range(1, 12):
            model(input_ids=torch.zeros(2, 30), decoder_input_ids=torch.zeros(2, length))

    assert len(watched(generate)) == 1
