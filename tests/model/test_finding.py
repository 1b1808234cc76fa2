from __future__ import annotations

import pytest

from autotune.model.finding import speedup_without


@pytest.mark.parametrize(
    ("share", "expected"),
    [(0.0, 1.0), (0.2, 1.25), (0.5, 2.0), (-1.0, 0.5), (0.99, 100.0), (0.995, 100.0), (1.7, 100.0)],
)
def test_the_speedup_of_a_step_that_loses_a_share(share: float, expected: float) -> None:
    assert speedup_without(share) == pytest.approx(expected)
