from __future__ import annotations

import pytest

from autotune.model.evidence import Value
from autotune.report import units


@pytest.mark.parametrize(
    ("seconds", "expected"),
    [
        (0.0, "under 0.1 s"),
        (0.8, "0.8 s"),
        (0.96, "1.0 s"),
        (9.94, "9.9 s"),
        (9.96, "10 s"),
        (59.4, "59 s"),
        (59.6, "1 min 0 s"),
        (200.0, "3 min 20 s"),
        (599.6, "10 min"),
        (1080.0, "18 min"),
        (3599.0, "1 h 0 min"),
        (28236.0, "7 h 51 min"),
        (4_000_000.0, "1,111 h 7 min"),
    ],
)
def test_duration(seconds: float, expected: str) -> None:
    assert units.duration(seconds) == expected


@pytest.mark.parametrize(
    ("ms", "expected"),
    [
        (0.42, "0.42 ms"),
        (9.996, "10.0 ms"),
        (99.96, "100 ms"),
        (168.2, "168 ms"),
        (999.6, "1.00 s"),
        (3620.0, "3.62 s"),
        (150_000.0, "150 s"),
    ],
)
def test_step_time(ms: float, expected: str) -> None:
    assert units.step_time(ms) == expected


@pytest.mark.parametrize(("ms", "expected"), [(3330.0, "3.33 s/it"), (1000.0, "1.00 s/it"), (168.0, "5.95 it/s")])
def test_rate(ms: float, expected: str) -> None:
    assert units.rate(ms) == expected


@pytest.mark.parametrize(
    ("share", "expected"),
    [(0.72, "72 %"), (0.006, "0.6 %"), (0.0996, "10 %"), (1.0, "100 %"), (-0.02, "-2.0 %")],
)
def test_percent(share: float, expected: str) -> None:
    assert units.percent(share) == expected


@pytest.mark.parametrize(
    ("num_bytes", "expected"),
    [
        (0, "0 bytes"),
        (1023, "1,023 bytes"),
        (1024, "1.0 KiB"),
        (31 * 2**30, "31 GiB"),
        (1.9 * 2**30, "1.9 GiB"),
        (2**52, "4,096 TiB"),
    ],
)
def test_size(num_bytes: float, expected: str) -> None:
    assert units.size(num_bytes) == expected


@pytest.mark.parametrize(("usd", "expected"), [(19.606, "$19.61"), (0.001, "under $0.01"), (1234.5, "$1,234.50")])
def test_money(usd: float, expected: str) -> None:
    assert units.money(usd) == expected


@pytest.mark.parametrize(
    ("value", "file", "expected"),
    [
        (True, "train.py", "True"),
        (True, "c.yaml", "true"),
        ("sdpa", "train.py", '"sdpa"'),
        ("sdpa", "c.yaml", "sdpa"),
        (False, "", "False"),
        (2, "c.yaml", "2"),
        (None, "train.py", "unset"),
        ((4, 43, 3), "requirements.txt", "4.43.3"),
    ],
)
def test_literal(value: Value | None, file: str, expected: str) -> None:
    assert units.literal(value, file) == expected
