from __future__ import annotations

import pytest
from fit_builders import GIB, record, step

from autotune.catalogue.devices import CUDA_CONTEXT, asked
from autotune.fit.memory_need import (
    COMPILED_AWAY,
    FRAGMENTATION,
    LOWER_MARGIN,
    NCCL,
    OWN_MEMORY,
    WORKSPACE,
    largest_micro_batch,
    of_step,
)
from autotune.fit.sharding import Shards
from autotune.model.fitted import Sharding

A100, H100 = asked("a100-80"), asked("h100-80")


def test_the_lower_end_is_the_peak_with_the_least_context():
    need = of_step(step(rest=10), record(), A100, None)
    assert need.low == int((1 - LOWER_MARGIN) * 20 * GIB) + CUDA_CONTEXT[0]
    assert need.parts == {"weights": 3 * GIB, "gradients": GIB, "optimizer state": 6 * GIB, "activations": 10 * GIB}


def test_the_upper_end_has_all_that_cuda_may_take():
    need = of_step(step(rest=10, held_back=2), record(), A100, None)
    assert need.high == 22 * GIB + int(OWN_MEMORY * 10 * GIB) + WORKSPACE + CUDA_CONTEXT[1]
    assert of_step(step(rest=10, held_back=2), record(), H100, None).high > need.high


def test_a_step_without_holes_is_not_taken_at_its_word():
    need = of_step(step(rest=10), record(), A100, None)
    assert need.high == int((20 + FRAGMENTATION * 20 + OWN_MEMORY * 10) * GIB) + WORKSPACE + CUDA_CONTEXT[1]


def test_what_a_sharded_step_holds_back_is_a_part_of_what_one_card_does():
    """Weights, gradients, state and the results of an update that are divided by 16, with no layers that are whole."""
    of, told = step(rest=0, update_rest=4, held_back=8), record(layer=0, outside=0)
    alone, shared = (of_step(of, told, A100, shards) for shards in (None, Shards(16, Sharding.FSDP)))
    # 16 GiB at the peak, in the update, and 8 GiB of gaps; the update's own results count whole for its operators.
    own = int(OWN_MEMORY * 4 * GIB) + WORKSPACE + CUDA_CONTEXT[1]
    assert alone.high == pytest.approx(24 * GIB + own, abs=2)
    assert shared.high == pytest.approx(1.5 * GIB + own + NCCL[1], abs=2)


def test_what_is_held_back_does_not_grow_with_ddps_buckets():
    of = step(rest=10, held_back=2)
    alone, shared = (of_step(of, record(), A100, shards) for shards in (None, Shards(2, Sharding.DDP)))
    assert shared.high - alone.high == pytest.approx(3 * GIB + NCCL[1], abs=2)


def test_the_peak_may_be_that_of_the_update():
    assert of_step(step(rest=1, update_rest=9), record(), A100, None).parts["activations"] == 9 * GIB


def test_several_cards_have_buffers_of_nccl():
    alone, two = (of_step(step(rest=10), record(), A100, shards) for shards in (None, Shards(2, Sharding.DDP)))
    # DDP has its buckets, of the gradients' 3 GiB.
    assert two.low - alone.low == pytest.approx((1 - LOWER_MARGIN) * 3 * GIB + NCCL[0], abs=2)


def test_the_largest_micro_batch_is_where_the_line_meets_the_limit():
    steps = [step(samples=1, rest=10), step(samples=2, rest=20)]
    found = largest_micro_batch(steps, record(*steps), A100, None)
    # 10 GiB of a sample and 10 GiB beside, of 79 GiB, with a third beyond.
    assert found == 4
    with_more = [*steps, step(samples=found, rest=10 * found)]
    assert of_step(with_more[-1], record(), A100, None).high <= A100.memory_bytes
    assert of_step(step(rest=10 * (found + 1)), record(), A100, None).high > A100.memory_bytes


def test_a_peak_of_the_update_that_does_not_fit_leaves_no_micro_batch():
    steps = [step(samples=1, rest=1, update_rest=90), step(samples=2, rest=2, update_rest=90)]
    assert largest_micro_batch(steps, record(*steps), A100, None) == 0


def test_a_peak_of_the_update_bounds_nothing_where_it_fits():
    steps = [step(samples=1, rest=1, update_rest=20), step(samples=2, rest=2, update_rest=20)]
    assert 40 < largest_micro_batch(steps, record(*steps), A100, None) < 75


@pytest.mark.parametrize("steps", [[step()], [step(length=128), step(samples=2, length=256)], [step(samples=None)] * 2])
def test_one_size_tells_no_largest(steps):
    assert largest_micro_batch(steps, record(*steps), A100, None) is None


@pytest.mark.parametrize(
    ("of_sample", "beside", "of_update", "held_back"),
    # Few bytes a sample; an update that is the peak of both tried sizes; holes as large as the peak rises.
    [(0.001, 10, 0, 0), (0.01, 0, 20, 0), (0.01, 0.5, 30, 0), (0.5, 1, 12, 0.25), (0.0001, 49, 0, 0.001)],
)
def test_the_upper_end_of_the_largest_micro_batch_is_within_the_card(of_sample, beside, of_update, held_back):
    def of(samples):
        return step(samples, beside + of_sample * samples, of_update, held_back * samples)

    steps = [of(1), of(2)]
    found = largest_micro_batch(steps, record(*steps), A100, None)
    assert found > 10
    assert of_step(of(found), record(), A100, None).high <= A100.memory_bytes
    if not held_back:
        assert of_step(of(found + 1), record(), A100, None).high > A100.memory_bytes


def test_what_compiling_may_save_is_left_out_of_the_lower_end():
    eager, compiled = (of_step(step(rest=10), record(compiles=value), A100, None) for value in (False, True))
    assert eager.low - compiled.low == pytest.approx((1 - LOWER_MARGIN) * COMPILED_AWAY * 10 * GIB, abs=2)
    assert eager.high == compiled.high


def test_compiling_saves_nothing_of_the_update():
    eager, compiled = (of_step(step(update_rest=30), record(compiles=value), A100, None) for value in (False, True))
    assert eager.low == compiled.low
