from __future__ import annotations

from autotune.fit.budget import MeasuredBudget, need
from autotune.fit.memory_need import CONTEXT
from autotune.model.outlook import MemoryBudget, MemoryPart

PARTS = {"weights": 10, "gradients": 10, "optimizer state": 20, "activations and the rest": 40, "allocator cache": 5}


def found(samples=4, on_device=True):
    parts = tuple(MemoryPart(name, size, "measured", "") for name, size in PARTS.items())
    return MeasuredBudget(("train.py",), MemoryBudget(parts, 85, 100, on_device), samples, ())


def test_the_measured_micro_batch_needs_what_was_measured():
    one = need(found(), 4)
    assert (one.low, one.high) == (80 + CONTEXT[0], 85 + CONTEXT[1])
    assert one.parts["activations and the rest"] == 40


def test_a_larger_one_may_need_no_more_or_all_of_it_again():
    one = need(found(), 8)
    assert (one.low, one.high) == (80 + CONTEXT[0], 40 + 2 * 45 + CONTEXT[1])


def test_a_smaller_one_may_need_less():
    one = need(found(), 2)
    assert (one.low, one.high) == (60 + CONTEXT[0], 85 + CONTEXT[1])


def test_an_unknown_micro_batch_is_the_measured_one():
    assert need(found(samples=None), 8).high == need(found(), 4).high


def test_of_a_run_on_the_host_only_the_state_is_sure():
    assert need(found(on_device=False), 4).low == 40 + CONTEXT[0]
