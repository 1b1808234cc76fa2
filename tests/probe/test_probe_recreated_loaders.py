from __future__ import annotations

from types import SimpleNamespace

import pytest
import torch

from autotune.probe import recreated_loaders

ROW = {"site": {"line": 3}, "arguments": {"batch_size": 4}, "dataset": {"type": "Data"}, "sampler": None}


def follows(ref, train, made_ns=50, step_ends=(10, 20), **changes):
    loaders = [{**ROW, "made_ns": 0}, {**ROW, "made_ns": made_ns, **changes}]
    session = SimpleNamespace(
        loaders=loaders, window=SimpleNamespace(step_ends=list(step_ends)), recorder=SimpleNamespace(origin=0)
    )
    return recreated_loaders.follows(session, ref, train)


def test_a_loader_that_is_made_anew_after_training_began_takes_the_place():
    assert follows(1, 0) and follows(0, 1)


@pytest.mark.parametrize(
    "changes",
    [{"made_ns": 5}, {"step_ends": ()}, {"sampler": "Random"}, {"arguments": {"batch_size": 8}}],
    ids=["made before", "no step yet", "another sampler", "other arguments"],
)
def test_others_do_not(changes):
    assert not follows(1, 0, **changes)


def test_an_unknown_loader_does_not():
    assert not follows(-1, 0)


def test_one_that_is_read_without_gradients_measures_something():
    with torch.no_grad():
        assert not follows(1, 0)
