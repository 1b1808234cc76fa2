from __future__ import annotations

import pytest

from autotune.catalogue.devices import product_ratios
from autotune.model.evidence import RUN, Evidence
from autotune.model.rule import GainSpec
from autotune.predict import predict

H100 = {
    "device.capability": (9, 0),
    "device.busy_share": 0.9,
    "device.gemm_fp32_share": 0.7,
    "device.attention_share": 0.1,
    "device.attention_backend": "efficient",
}


TF32, BF16 = 494.7 / 66.9, 989.4 / 66.9
"""Of the H100's peak rates."""


def found(to, **facts):
    return predict(GainSpec("tensor_cores", {"to": to}), Evidence({RUN: {**H100, **facts}}, {}), RUN)


def test_tf32_makes_products_faster_and_nothing_else():
    made = found("tf32")
    # 0.63 of the step are products.
    assert (made.low, made.high) == pytest.approx((1 / (0.37 + 0.63 / (TF32 / 2)), 1 / (0.37 + 0.63 / TF32)))
    assert made.low < made.speedup < made.high
    assert made.basis == "modelled"


def test_bf16_makes_all_kernels_faster_but_not_the_idle_time():
    made = found("bf16")
    # Idle 0.1, products 0.63, attention 0.09, the rest 0.18.
    assert made.low == pytest.approx(1 / (0.1 + 0.63 / (BF16 / 2) + 0.09 / 2 + 0.18))
    assert made.high == pytest.approx(1 / (0.1 + 0.63 / BF16 + 0.09 / 8 + 0.18 / 2))
    assert made.high > found("tf32").high


def test_a_consumer_card_may_gain_nothing_from_tf32():
    made = found("tf32", **{"device.capability": (8, 9)})
    assert (made.low, made.high) == pytest.approx((1.0, 1 / (0.37 + 0.63 / 2)), rel=1e-3)


@pytest.mark.parametrize(("to", "left"), [("tf32", 0.1 + 0.09 + 0.18), ("bf16", 0.1 + 0.18 / 2)])
def test_an_unknown_card_gains_at_most_the_products(to, left):
    made = found(to, **{"device.capability": (9, 4)})
    assert (made.speedup, made.low, made.high, made.basis) == (
        pytest.approx(1 / left),
        1.0,
        pytest.approx(1 / left),
        "bound",
    )


def test_the_step_is_not_shorter_than_the_launches_take_the_host():
    made = found("bf16", **{"device.mean_kernel_us": 45.0})
    # A kernel takes the host 10 us to 30 us: 0.2 to 0.6 of the step.
    assert made.low == pytest.approx(1 / 0.6)
    assert made.low < found("bf16").low
    assert made.speedup == pytest.approx(found("bf16").speedup)
    busy = found("bf16", **{"device.mean_kernel_us": 9.0})
    assert (busy.speedup, busy.low) == (1.0, 1.0)


def test_the_noise_of_the_step_widens_the_interval():
    assert found("tf32", **{"step.noise_share": 0.1}).low == pytest.approx(0.9 * found("tf32").low)


def test_attention_that_is_written_out_is_among_the_products():
    made = found("bf16", **{"device.attention_backend": "math"})
    assert made.low == pytest.approx(1 / (0.1 + 0.63 / (BF16 / 2) + 0.27))
    assert found("tf32", **{"device.attention_backend": "math"}) == found("tf32")


def test_a_card_that_is_known_by_its_name_has_its_own_ratios():
    assert found("tf32", **{"machine.gpu_name": "NVIDIA H20"}).high == pytest.approx(1 / (0.37 + 0.63 / (74 / 44)))
    assert found("tf32", **{"machine.gpu_name": "NVIDIA H20"}).low == 1.0
    assert found("tf32", **{"machine.gpu_name": "NVIDIA H200"}) == found("tf32")


def test_the_fastest_card_of_a_capability_stands_for_one_without_a_known_name():
    assert product_ratios("NVIDIA A30", (8, 0)) == product_ratios("NVIDIA A100-SXM4-80GB", None)


@pytest.mark.parametrize("name", ["device.busy_share", "device.gemm_fp32_share"])
def test_unknown_kernels_give_no_gain(name):
    assert found("bf16", **{name: None}) is None
