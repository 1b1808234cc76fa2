from __future__ import annotations

import os

import pytest

from autotune.verify.contention import Reading, read, shares


def test_the_counters_of_the_whole_machine(tmp_path) -> None:
    stat = tmp_path / "stat"
    stat.write_text("cpu  100 10 50 800 40 0 0 0 90 9\ncpu0 1 2 3\n")
    ticks = os.sysconf("SC_CLK_TCK")
    assert read(stat) == Reading(pytest.approx(160 / ticks), pytest.approx(1000 / ticks))


@pytest.mark.parametrize("text", [None, "", "cpu0 1 2 3 4 5\n", "cpu  1 2\n", "cpu  a b c d e\n"])
def test_no_counters_are_unknown(tmp_path, text) -> None:
    stat = tmp_path / "stat"
    if text is not None:
        stat.write_text(text)
    assert read(stat) is None


def test_what_is_not_ours_is_of_others() -> None:
    assert shares(Reading(10, 100), Reading(18, 110), 5.0) == (pytest.approx(0.3), pytest.approx(0.8))
    assert shares(Reading(10, 100), Reading(18, 110), 9.0) == (0.0, pytest.approx(0.8))


@pytest.mark.parametrize(
    ("before", "after", "own"),
    [
        (None, Reading(1, 2), 1.0),
        (Reading(1, 2), None, 1.0),
        (Reading(1, 2), Reading(2, 4), None),
        (Reading(1, 2),) * 2 + (0.0,),
    ],
)
def test_what_is_unknown_stays_unknown(before, after, own) -> None:
    assert shares(before, after, own) == (None, None)
