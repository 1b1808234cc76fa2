from __future__ import annotations

import pytest

from autotune.model.evidence import RUN, Evidence
from autotune.model.rule import GainSpec
from autotune.predict import predict

LOADER = "loader#train"
ARGUMENTS = {"share": "loader.pad_share", "left": "loader.dynamic_pad_share", "of": "step.compute_share"}
RUN_FACTS = {
    "step.mean_ms": 200.0,
    "step.compute_share": 0.95,
    "batch_curve.fixed_ms": 10.0,
    "batch_curve.per_unit_ms": 0.1,
    "batch_curve.units": 800.0,
    "batch_curve.error_share": 0.05,
}
OF_LOADER = {"loader.batches_per_step": 2.0, "loader.pad_share": 0.6, "loader.dynamic_pad_share": 0.2}


def padding(**changed):
    run = {**RUN_FACTS, **{name: value for name, value in changed.items() if not name.startswith("loader")}}
    loader = {**OF_LOADER, **{name: value for name, value in changed.items() if name.startswith("loader")}}
    known = [{name: value for name, value in facts.items() if value is not None} for facts in (run, loader)]
    return predict(GainSpec("padding", ARGUMENTS), Evidence({RUN: known[0], LOADER: known[1]}, {}), LOADER)


def test_only_the_part_that_grows_with_tokens_shrinks():
    found = padding()
    # Half of 2 x 80 ms goes, give or take 5 % of 2 x 90 ms; the fixed 2 x 10 ms stay.
    assert (found.speedup, found.low, found.high) == pytest.approx((200 / 120, 200 / 129, 200 / 111))
    assert found.basis == "modelled"


def test_a_doubtful_fit_never_promises_a_loss():
    assert padding(**{"batch_curve.error_share": 0.8}).low == 1.0


@pytest.mark.parametrize(
    "changed",
    [
        *({name: None} for name in RUN_FACTS if name.startswith("batch_curve")),
        pytest.param({"batch_curve.fixed_ms": 100.0}, id="the fit is not about this step"),
    ],
)
def test_without_a_fit_it_is_a_bound(changed):
    found = padding(**changed)
    assert (found.speedup, found.low, found.basis) == (pytest.approx(1 / (1 - 0.5 * 0.95)), 1.0, "bound")


@pytest.mark.parametrize("changed", [{"loader.pad_share": None}, {"loader.dynamic_pad_share": 0.7}])
def test_nothing_to_gain(changed):
    assert padding(**changed) is None
