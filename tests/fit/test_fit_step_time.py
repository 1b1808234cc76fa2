from __future__ import annotations

import pytest
from fit_builders import GIB, step

from autotune.catalogue.devices import asked
from autotune.fit.step_time import EXCHANGED, LAUNCH_MS, step_ms
from autotune.predict.roofline import OF_BANDWIDTH, OF_RATE

A100, T4 = asked("a100-80"), asked("t4")
PRODUCT = (10**14, 10**6, "bfloat16", 3)
COPY = (0, 10**10, "float32", 2)


def test_products_take_their_operations_at_a_share_of_the_rate():
    found = step_ms(step(work=[PRODUCT]), A100, 1, 0)
    assert (found.low, found.high) == pytest.approx(tuple(3e14 / (312e12 * share) * 1e3 for share in OF_RATE[::-1]))
    assert found.basis == "assumed"


def test_other_operators_take_their_bytes():
    found = step_ms(step(work=[COPY]), A100, 1, 0)
    assert found.low == pytest.approx(2e10 / (2039e9 * OF_BANDWIDTH[1]) * 1e3)


def test_fp32_may_run_as_tf32():
    found = step_ms(step(work=[(10**14, 1, "float32", 1)]), A100, 1, 0)
    assert found.high / found.low == pytest.approx(156 / 19.5 * OF_RATE[1] / OF_RATE[0])


def test_a_card_without_bf16_takes_its_fp32_rate():
    assert step_ms(step(work=[PRODUCT]), T4, 1, 0).low == pytest.approx(3e14 / (8.1e12 * OF_RATE[1]) * 1e3)


def test_a_step_is_not_shorter_than_its_launches():
    found = step_ms(step(num_operators=1000), A100, 1, 0)
    assert (found.low, found.high) == pytest.approx((1000 * LAUNCH_MS[0], 1000 * LAUNCH_MS[1]))


def test_several_cards_may_wait_for_their_gradients():
    alone, two = (step_ms(step(work=[PRODUCT]), A100, count, 3 * GIB) for count in (1, 2))
    assert two.low == alone.low
    assert two.high - alone.high == pytest.approx(EXCHANGED * 3 * GIB / 2 / 300e9 * 1e3)
