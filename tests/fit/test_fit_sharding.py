from __future__ import annotations

import pytest
from fit_builders import GIB, record, step

from autotune.fit.sharding import COPIES, Shards, buffers, phase_peaks
from autotune.model.fitted import Sharding

FORWARD, UPDATE = "forward and backward", "optimizer"


@pytest.mark.parametrize(
    ("kind", "weights", "gradients", "states"),
    [
        (Sharding.DDP, 3, 1, 6),
        (Sharding.ZERO_1, 3, 1, 6 / 4),
        (Sharding.ZERO_2, 3, 1 / 4, 6 / 4),
        # Two layers and a gradient of 1 GiB are whole, and twice what is outside of them.
        (Sharding.FSDP, 3 / 4 + 3 + 2, 1 / 4, 6 / 4),
    ],
)
def test_each_kind_divides_its_parts(kind, weights, gradients, states):
    parts = phase_peaks(step(rest=10), record(), Shards(4, kind))[FORWARD].parts
    wanted = {"weights": weights, "gradients": gradients, "optimizer state": states, "activations": 10}
    assert {name: size / GIB for name, size in parts.items()} == pytest.approx(wanted)


def test_temporary_results_of_an_update_are_divided_with_its_state():
    peaks = phase_peaks(step(update_rest=8), record(), Shards(4, Sharding.ZERO_1))
    assert peaks[UPDATE].parts["activations"] == 2 * GIB
    assert phase_peaks(step(update_rest=8), record(), Shards(4, Sharding.DDP))[UPDATE].parts["activations"] == 8 * GIB


def test_ddp_has_a_copy_of_the_gradients():
    one = phase_peaks(step(), record(), Shards(4, Sharding.DDP))[FORWARD]
    assert one.num_bytes == sum(one.parts.values()) + 3 * GIB


def test_without_known_layers_all_weights_may_be_whole():
    parts = phase_peaks(step(), record(layer=None, outside=None), Shards(4, Sharding.FSDP))[FORWARD].parts
    assert parts["weights"] == (3 / 4 + 2 * 3) * GIB


def test_deepspeed_keeps_buckets_beside():
    assert buffers(step(), Shards(4, Sharding.ZERO_2)) == 2 * 500_000_000 * 4
    assert buffers(step(), Shards(4, Sharding.FSDP)) == buffers(step(), None) == 0


def test_one_card_has_all_of_it():
    assert phase_peaks(step(rest=10), record(), None)[FORWARD].num_bytes == 20 * GIB


@pytest.mark.parametrize("kind", [Sharding.ZERO_1, Sharding.ZERO_2, Sharding.ZERO_3])
def test_where_no_gradient_is_live_at_a_peak_the_width_is_that_of_what_is_trained(kind):
    """Updates in backward: 1.5 Gi numbers in 16 bits, whose state is twice as wide and whose copies are of 6 GiB."""
    made, updated = step(gradients=0), record(num_trained=3 * GIB // 2)
    parts = phase_peaks(made, updated, Shards(4, kind))[UPDATE].parts
    assert (parts["optimizer state"] / GIB, parts[COPIES] / GIB) == (2 * 6 / 4, 6 / 4)


def test_deepspeed_keeps_a_16_bit_model_in_fp32_beside():
    """3 GiB of weights and gradients of 1.5 Gi numbers: a copy of 6 GiB, Adam's 6 GiB of state twice as wide."""
    bf16 = record(num_trained=3 * GIB // 2)
    for kind, weights, gradients in ((Sharding.ZERO_1, 3, 3), (Sharding.ZERO_2, 3, 3 / 4)):
        peak = phase_peaks(step(update_rest=1), bf16, Shards(4, kind))[UPDATE]
        assert {name: size / GIB for name, size in peak.parts.items()} == pytest.approx(
            {
                "weights": weights,
                "gradients": gradients,
                "optimizer state": 2 * 6 / 4,
                "activations": 2 * 1 / 4 + 6 / 4,  # the gradients in fp32 are there during the update
                "weights in fp32": 6 / 4,
            }
        )
    assert COPIES in phase_peaks(step(), bf16, Shards(4, Sharding.ZERO_3))[FORWARD].parts
    for kind in (Sharding.DDP, Sharding.FSDP):
        assert COPIES not in phase_peaks(step(), bf16, Shards(4, kind))[FORWARD].parts
    assert COPIES not in phase_peaks(step(), record(), Shards(4, Sharding.ZERO_2))[UPDATE].parts


def test_a_flat_parameter_has_gradients_of_frozen_weights_too():
    """FSDP 1: 3 GiB of weights, of which 1 GiB lies outside of the layers; 1 GiB trains at most."""
    frozen = step(rest=10)
    frozen.peaks[UPDATE].parts["gradients"] = GIB
    parts = phase_peaks(frozen, record(), Shards(4, Sharding.FSDP_1))[FORWARD].parts
    assert parts["gradients"] == 2 * GIB / 4
    assert phase_peaks(frozen, record(), Shards(4, Sharding.FSDP))[FORWARD].parts["gradients"] == GIB / 4
    assert phase_peaks(step(), record(), Shards(4, Sharding.FSDP_1))[UPDATE].parts["gradients"] == 3 * GIB / 4


def test_gradients_are_whole_while_micro_batches_accumulate_without_a_sync():
    parts = phase_peaks(step(micro_batches=2), record(), Shards(4, Sharding.FSDP_1))[FORWARD].parts
    assert parts["gradients"] == 3 * GIB


def test_a_wrapper_that_divides_weights_gathers_layers_in_16_bits_and_needs_no_casts():
    mixed = step(rest=10, casts=2)
    alone, ddp, fsdp = (
        phase_peaks(mixed, record(), shards)[FORWARD].parts
        for shards in (None, Shards(4, Sharding.DDP), Shards(4, Sharding.FSDP))
    )
    assert alone["activations"] == ddp["activations"] == 12 * GIB
    assert fsdp["activations"] == 10 * GIB
    assert fsdp["weights"] == (3 / 4 + (3 + 2) / 2) * GIB


def test_an_adapter_makes_no_whole_gradients_but_in_a_flat_parameter():
    """Layers of 1 GiB, 1 GiB outside, and gradients of 1 GiB of 3: less than half of the weights."""
    adapter = step(rest=10)
    adapter.peaks[UPDATE].parts["gradients"] = GIB

    def weights(kind, trained):
        return phase_peaks(trained, record(), Shards(4, kind))[FORWARD].parts["weights"] / GIB

    assert weights(Sharding.FSDP, adapter) == 3 / 4 + 2 + 1
    assert weights(Sharding.FSDP_1, adapter) == 3 / 4 + 3 + 1
    assert weights(Sharding.FSDP, step()) == weights(Sharding.FSDP_1, step()) == 3 / 4 + 3 + 2
    # Whole gradients are counted once.
    assert weights(Sharding.FSDP_1, step(micro_batches=2)) == 3 / 4 + 2 + 2
