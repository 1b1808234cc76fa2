"""One device's part of a step: dealt batches, memory, communication, each against the formula by hand."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from autotune.model.outlook import MemoryBudget, MemoryPart
from autotune.model.report import Step
from autotune.predict import data_parallel
from autotune.predict import memory_budget as of
from autotune.predict.data_parallel import KINDS, Devices, DeviceShare

DDP, ZERO, FSDP = KINDS
MB = 10**6
FOUR = Devices(4, 1e9)
SAME = DeviceShare(1, 0.25, 1.0)
"""A quarter of the micro-batches, of today's size."""

PHASES = {"data_wait": 4.0, "forward": 40.0, "backward": 80.0, "optimizer": 8.0, "checkpoint": 10.0, "other": 2.0}
STEP = Step(30, 144.0, 144.0, 150.0, PHASES)


def budget(**changed: int | None) -> MemoryBudget:
    sizes = {of.WEIGHTS: 100, of.GRADIENTS: 100, of.OPTIMIZER: 200, of.ACTIVATIONS: 400, of.CACHE: 50, of.HEADROOM: 150}
    parts = {**sizes, **{name.replace("_", " "): value for name, value in changed.items()}}
    rows = [MemoryPart(name, None if mb is None else mb * MB, "modelled", "") for name, mb in parts.items()]
    return MemoryBudget(tuple(rows), 850 * MB, 1000 * MB, True)


@pytest.mark.parametrize(
    ("size", "count", "k", "part"),
    [
        (4, 8, 4, DeviceShare(2, 0.25, 1.0)),
        (4, 1, 2, DeviceShare(1, 1.0, 0.5)),
        (2, 6, 4, DeviceShare(3, 0.5, 0.5)),
        (4, 6, 4, DeviceShare(2, 1 / 3, 0.75)),
        (1, 1, 2, None),
        (5, 1, 2, None),
    ],
)
def test_dealt_batches(size: int, count: int, k: int, part: DeviceShare | None) -> None:
    assert data_parallel.split_step(size, count, k) == part


@given(st.integers(1, 64), st.integers(1, 64), st.integers(2, 64))
def test_the_global_batch_is_held(size: int, count: int, k: int) -> None:
    part = data_parallel.split_step(size, count, k)
    assert (part is None) == (size * count % k != 0)
    if part is not None:
        assert part.count * part.of_size * size * k == pytest.approx(size * count)
        assert part.of_size <= 1
        assert part.of_count == part.count / count


@pytest.mark.parametrize(("kind", "mb"), [(DDP, 950), (ZERO, 625), (FSDP, 550)])
def test_memory_of_each_device(kind: data_parallel.ParallelStrategy, mb: float) -> None:
    found = data_parallel.memory(kind, FOUR, SAME, budget())
    assert found is not None
    # 50 MB are the allocator's cache, which it can do without.
    assert (found.low, found.high, found.basis) == ((mb - 50) * MB, mb * MB, "modelled")


def test_half_a_micro_batch_has_half_the_activations_at_best() -> None:
    found = data_parallel.memory(FSDP, FOUR, DeviceShare(1, 0.5, 0.5), budget())
    assert found is not None
    assert (found.low, found.high) == (300 * MB, 550 * MB)


def test_an_unknown_part_leaves_the_memory_unknown() -> None:
    assert data_parallel.memory(DDP, FOUR, SAME, budget(optimizer_state=None)) is None
    assert data_parallel.memory(DDP, FOUR, SAME, budget(activations_and_the_rest=None)) is None


def test_an_all_reduce_hides_behind_the_last_backward() -> None:
    """2 x 3/4 x 100 MB at 1 GB/s are 150 ms; the one backward left is 20 ms, the last bucket 2 x 3/4 x 26 MB."""
    found = data_parallel.exposed_communication_ms(DDP, FOUR, SAME, budget(), STEP)
    assert (found.low, found.high) == (pytest.approx(130.0), pytest.approx(150.0))
    fast = data_parallel.exposed_communication_ms(DDP, Devices(4, 16e9), SAME, budget(), STEP)
    assert fast.low == pytest.approx(2 * 0.75 * 25 * 2**20 / 16e9 * 1000)


def test_zero_gathers_what_was_updated_after_the_step() -> None:
    found = data_parallel.exposed_communication_ms(ZERO, FOUR, DeviceShare(2, 0.5, 1.0), budget(), STEP)
    assert (found.low, found.high) == (pytest.approx(75 - 20 + 75), pytest.approx(75 * 3))


def test_fsdp_gathers_weights_twice_for_each_micro_batch() -> None:
    found = data_parallel.exposed_communication_ms(FSDP, FOUR, DeviceShare(2, 0.5, 1.0), budget(), STEP)
    assert (found.low, found.high) == (pytest.approx(450 - 20 - 40), pytest.approx(450))


def test_a_step_is_shared_out_but_for_saves_and_the_update() -> None:
    """Micro-batches 124 ms, other 2, update 8, saves 10."""
    assert data_parallel.computed_ms(DDP, FOUR, SAME, STEP, 0.3) == (pytest.approx(49.5), pytest.approx(51.0))
    assert data_parallel.computed_ms(FSDP, FOUR, SAME, STEP, 0.3) == (pytest.approx(43.5), pytest.approx(45.0))


def test_the_fixed_part_of_a_micro_batch_does_not_shrink() -> None:
    half = DeviceShare(1, 1.0, 0.5)
    best, worst = data_parallel.computed_ms(DDP, Devices(2, 1e9), half, STEP, 0.2)
    assert (best, worst) == (pytest.approx(18 + 126 * 0.6), pytest.approx(18 + 124 * 0.6 + 2))
    best, worst = data_parallel.computed_ms(DDP, Devices(2, 1e9), half, STEP, None)
    assert (best, worst) == (pytest.approx(18 + 63), pytest.approx(18 + 126))
