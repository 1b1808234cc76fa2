from __future__ import annotations

import pytest

from autotune.model.evidence import RUN, Evidence
from autotune.model.rule import GainSpec
from autotune.predict import predict

SPEC = GainSpec("local_ratio", {"share": "optimizer.step_share", "low": "2", "high": "8"})


@pytest.mark.parametrize("share", [0.0, 1.0])
def test_no_share_no_gain(share):
    assert predict(SPEC, Evidence({"optimizer#0": {"optimizer.step_share": share}}, {}), "optimizer#0") is None


def test_the_part_gets_faster_and_the_rest_does_not():
    planned = {"run.num_planned_steps": 1000, "step.mean_ms": 100.0}
    evidence = Evidence({RUN: planned, "optimizer#0": {"optimizer.step_share": 0.4}}, {})
    found = predict(SPEC, evidence, "optimizer#0")
    # 0.6 + 0.4 / 4, between 0.6 + 0.4 / 2 and 0.6 + 0.4 / 8.
    assert (found.speedup, found.low, found.high) == pytest.approx((1 / 0.7, 1 / 0.8, 1 / 0.65))
    assert (found.basis, found.saved_s) == ("modelled", pytest.approx(30.0))


def test_the_noise_of_the_step_is_in_the_interval():
    evidence = Evidence({RUN: {"step.noise_share": 0.1}, "optimizer#0": {"optimizer.step_share": 0.4}}, {})
    found = predict(SPEC, evidence, "optimizer#0")
    assert (found.low, found.high) == pytest.approx((0.9 / 0.8, 1.1 / 0.65))


def test_a_ratio_that_was_measured_takes_the_place_of_the_range():
    spec = GainSpec("local_ratio", {**SPEC.arguments, "ratio": "replay.fused_ratio"})
    optimizer = {"optimizer.step_share": 0.4}
    measured = predict(spec, Evidence({RUN: {"replay.fused_ratio": 5.0}, "optimizer#0": optimizer}, {}), "optimizer#0")
    assert measured.speedup == pytest.approx(1 / (0.6 + 0.4 / 5))
    assert 1 / (0.6 + 0.4 / 4) < measured.low < measured.speedup < measured.high < 1 / (0.6 + 0.4 / 8)
    slower = Evidence({RUN: {"replay.fused_ratio": 0.9}, "optimizer#0": optimizer}, {})
    assert predict(spec, slower, "optimizer#0").speedup == pytest.approx(1 / (0.6 + 0.4 / 0.9))
    unknown = Evidence({"optimizer#0": optimizer}, {})
    assert predict(spec, unknown, "optimizer#0") == predict(SPEC, unknown, "optimizer#0")


def test_a_ratio_that_may_be_off_widens_the_interval():
    spec = GainSpec("local_ratio", {**SPEC.arguments, "ratio": "replay.fused_ratio", "spread": "replay.fused_spread"})

    def predicted(**more):
        facts = {"replay.fused_ratio": 5.0, **{f"replay.{name}": value for name, value in more.items()}}
        return predict(spec, Evidence({RUN: facts, "optimizer#0": {"optimizer.step_share": 0.4}}, {}), "optimizer#0")

    narrow, wide = predicted(), predicted(fused_spread=2.0)
    assert narrow.speedup == pytest.approx(wide.speedup)
    assert wide.low < narrow.low < narrow.high < wide.high
    assert predicted(fused_spread=1.0) == narrow
