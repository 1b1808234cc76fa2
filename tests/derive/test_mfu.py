"""MFU by hand: steps of 65 ms on an H100, whose dense peak is 989 TFLOP/s in bf16, 495 in TF32 and 67 in fp32."""

from __future__ import annotations

from typing import Any

import pytest
from build import facts_of, model, steps

from autotune.catalogue.devices import devices

H100 = {"type": "cuda", "name": "NVIDIA H100 80GB HBM3", "capability": "9.0", "index": 0}
STEP_S = 0.065
TERA = 10**12


def mfu(*counted: dict[str, int], unknown: tuple[str, ...] = (), **fields: Any) -> tuple[Any, Any]:
    lines = {"products": {"steps": list(counted), "unknown": list(unknown)}}
    found = facts_of(**{"script": steps(4), "device": H100, "lines": lines, **fields})
    return found.get("step.num_flops"), found.get("device.mfu_share")


def test_the_peaks_are_those_of_the_data_sheet() -> None:
    card = devices()["h100-80"]
    assert (round(card.bf16 or 0), round(card.tf32 or 0), round(card.fp32)) == (989, 495, 67)


def test_the_share_of_the_step_that_the_peak_would_take() -> None:
    number, share = mfu(*3 * [{"bfloat16": 26 * TERA}])
    assert number == 26 * TERA
    assert share == pytest.approx(26 / 989 / STEP_S, rel=0.002)
    assert share == pytest.approx(0.404, abs=0.001)


def test_each_element_type_has_its_own_peak() -> None:
    _, share = mfu({"bfloat16": 13 * TERA, "tf32": 6 * TERA, "float32": TERA})
    assert share == pytest.approx((13 / 989 + 6 / 495 + 1 / 67) / STEP_S, rel=0.002)


@pytest.mark.parametrize(
    ("counted", "fields"),
    [
        ([{"bfloat16": 10 * TERA}, {"bfloat16": 11 * TERA}], {}),  # other sizes
        ([{"bfloat16": TERA}], {"unknown": ("flash_attn::_flash_attn_forward",)}),
        ([{"bfloat16": TERA}], {"models": (model(compiled=True),)}),
        ([{}], {}),
        ([], {}),
    ],
)
def test_nothing_is_claimed_where_not_all_was_counted(counted: list[dict[str, int]], fields: dict[str, Any]) -> None:
    assert mfu(*counted, **fields) == (None, None)


@pytest.mark.parametrize("name", ["NVIDIA GeForce GTX 1080", None])
def test_of_a_card_that_is_not_listed_there_is_no_share(name: str | None) -> None:
    assert mfu({"bfloat16": TERA}, device={**H100, "name": name}) == (TERA, None)


def test_of_an_element_type_without_a_rate_there_is_no_share() -> None:
    assert mfu({"bfloat16": TERA, "float64": 5}) == (TERA + 5, None)


def test_without_a_count_nothing_is_known() -> None:
    assert "step.num_flops" not in facts_of(script=steps(4), device=H100)
