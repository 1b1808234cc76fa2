from __future__ import annotations

import pytest

from autotune.verify.student import quantile

DEGREES = (1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 12, 14, 16, 18, 30, 60)
T95 = (12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228, 2.179, 2.145, 2.120, 2.101, 2.042, 2.000)
T99 = (63.657, 9.925, 5.841, 4.604, 4.032, 3.707, 3.499, 3.355, 3.250, 3.169, 3.055, 2.977, 2.921, 2.878, 2.750, 2.660)


@pytest.mark.parametrize(("level", "table"), [(0.95, T95), (0.99, T99)])
def test_it_is_what_tables_say(level: float, table: tuple[float, ...]) -> None:
    assert [round(quantile(level, degrees), 3) for degrees in DEGREES] == list(table)


def test_one_degree_is_the_distribution_of_cauchy() -> None:
    assert quantile(0.5, 1) == pytest.approx(1.0)


def test_many_degrees_are_the_normal_distribution() -> None:
    assert quantile(0.95, 1_000_000) == pytest.approx(1.95996, abs=1e-4)
