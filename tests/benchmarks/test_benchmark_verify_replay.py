"""Stored pairs of verify whose truth is known: the verdicts that docs/verify.md reports."""

from __future__ import annotations

import json

import pytest

from autotune.model.verified import Verdict


@pytest.fixture
def replay(imported):
    return imported("verify_replay")


@pytest.mark.parametrize(
    ("busy", "truth", "runs", "faster", "slower", "wrong"),
    [
        (False, 0.9091, 20, 0, 20, 0),
        (False, 1.0, 20, 0, 0, 0),
        (True, 1.5, 21, 19, 0, 0),
        (True, 1.0, 25, 1, 0, 1),
    ],
)
def test_stored_pairs_have_the_verdicts_of_the_page(replay, busy, truth, runs, faster, slower, wrong) -> None:
    rows = [json.loads(line) for line in replay.PAIRS.read_text(encoding="utf-8").splitlines()]
    found = [replay.judged(row, None) for row in rows if (row["busy"], row["truth"]) == (busy, truth)]
    counts = [sum(one[key] for one in found) for key in (Verdict.FASTER, Verdict.SLOWER, "wrong")]
    assert (len(found), *counts) == (runs, faster, slower, wrong)


def test_neighbouring_pairs_of_a_verification_count_as_one(replay) -> None:
    row = {"truth": 1.0, "looks": 1, "before": [100.0] * 3 + [200.0], "after": [100.0] * 4}
    cut = replay.judged(row, 3)
    assert sum(cut[kind] for kind in Verdict) == pytest.approx(1.0)
    assert replay.judged(row, 5) is None
