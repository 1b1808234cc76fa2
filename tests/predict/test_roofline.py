from __future__ import annotations

import pytest

from autotune.catalogue.devices import asked
from autotune.predict.roofline import KINDS, times_as_long

A100, H100, T4 = map(asked, ("a100-80", "h100-80", "t4"))


def test_measured_work_takes_as_long_as_the_rates_or_the_bandwidths_say():
    assert times_as_long(["bfloat16"], A100, H100) == pytest.approx((312 / 989.4, 2039 / 3350))
    assert times_as_long(["bfloat16"], H100, A100) == pytest.approx((3350 / 2039, 989.4 / 312))


def test_fp32_may_run_as_tf32_on_both():
    low, high = times_as_long(["float32"], A100, T4)
    assert (low, high) == pytest.approx((19.5 / 8.1, 156 / 8.1))


def test_of_products_of_an_unknown_type_every_rate_counts():
    low, high = times_as_long(KINDS, A100, T4)
    assert (low, high) == pytest.approx((19.5 / 8.1, 312 / 8.1))


def test_on_the_same_card_nothing_changes():
    assert times_as_long(KINDS, H100, H100) == (1.0, 1.0)
