from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import pytest

from autotune.catalogue.devices import CUDA_CONTEXT
from autotune.diagnose import diagnose
from autotune.errors import UsageError
from autotune.fit.budget import MeasuredBudget, need, read
from autotune.model.outlook import MemoryBudget, MemoryPart

PARTS = {"weights": 10, "gradients": 10, "optimizer state": 20, "activations and the rest": 40, "allocator cache": 5}


def found(samples=4, on_device=True, peak=85, **others):
    parts = tuple(MemoryPart(name, size, "measured", "") for name, size in {**PARTS, **others}.items())
    return MeasuredBudget(("train.py",), MemoryBudget(parts, peak, 100, on_device), samples, ())


def test_the_measured_micro_batch_needs_what_was_measured():
    one = need(found(), 4)
    assert (one.low, one.high) == (80 + CUDA_CONTEXT[0], 85 + CUDA_CONTEXT[1])
    assert one.parts["activations and the rest"] == 40


def test_a_larger_one_may_need_no_more_or_all_of_it_again():
    one = need(found(), 8)
    assert (one.low, one.high) == (80 + CUDA_CONTEXT[0], 40 + 2 * 45 + CUDA_CONTEXT[1])


def test_a_smaller_one_may_need_less():
    one = need(found(), 2)
    assert (one.low, one.high) == (60 + CUDA_CONTEXT[0], 85 + CUDA_CONTEXT[1])


def test_a_size_beside_an_unknown_micro_batch_is_refused():
    assert need(found(samples=None), None).high == 85 + CUDA_CONTEXT[1]
    with pytest.raises(UsageError, match="cannot be scaled"):
        need(found(samples=None), 8)


@pytest.mark.parametrize(("peak", "activations"), [(85, None), (30, 5)])
def test_a_peak_that_leaves_no_rest_is_refused(peak, activations):
    with pytest.raises(UsageError, match="what activations took"):
        need(found(peak=peak, **{"activations and the rest": activations}), 4000)


def test_what_is_unknown_is_no_part_and_other_sizes_have_none():
    assert "optimizer state" not in need(found(**{"optimizer state": None}), 4).parts
    assert need(found(), 8).parts == {}


def test_a_run_of_several_processes_is_refused(monkeypatch):
    memory, run = found().memory, SimpleNamespace(command=("train.py",), num_processes=2)
    evidence = SimpleNamespace(lookup=lambda place, name: None)
    report = SimpleNamespace(outlook=SimpleNamespace(memory=memory), evidence=evidence, run=run)
    monkeypatch.setattr(diagnose, "load", lambda name, cwd: report)
    with pytest.raises(UsageError, match="several processes"):
        read("last", Path())


def test_of_a_run_on_the_host_only_the_state_is_sure():
    assert need(found(on_device=False), 4).low == 40 + CUDA_CONTEXT[0]
