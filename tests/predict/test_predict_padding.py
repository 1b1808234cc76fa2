from __future__ import annotations

import pytest

from autotune.model.evidence import RUN, Evidence
from autotune.model.rule import GainSpec
from autotune.predict import predict

LOADER = "loader#train"
ARGUMENTS = {"share": "loader.pad_share", "left": "loader.dynamic_pad_share", "of": "step.compute_share"}
RUN_FACTS = {
    "step.mean_ms": 100.0,
    "step.compute_share": 0.9,
    "step.optimizer_share": 0.2,
    "batch_curve.fixed_share": 0.25,
    "batch_curve.error_share": 0.05,
}
OF_LOADER = {"loader.pad_share": 0.6, "loader.dynamic_pad_share": 0.2}


def padding(**changed):
    run = {**RUN_FACTS, **{name: value for name, value in changed.items() if not name.startswith("loader")}}
    loader = {**OF_LOADER, **{name: value for name, value in changed.items() if name.startswith("loader")}}
    known = [{name: value for name, value in facts.items() if value is not None} for facts in (run, loader)]
    return predict(GainSpec("padding", ARGUMENTS), Evidence({RUN: known[0], LOADER: known[1]}, {}), LOADER)


def test_only_the_part_that_grows_with_tokens_shrinks():
    found = padding()
    # Micro-batches are 0.8 of the step, three quarters of that grow with tokens, and half of these go.
    assert found.share == pytest.approx(0.3)
    assert (found.low, found.high) == pytest.approx((0.85 / (0.7 + 0.04), 1.15 / (0.7 - 0.04)))
    assert found.basis == "modelled"


def test_the_noise_of_the_step_widens_the_interval():
    quiet, noisy = padding(), padding(**{"step.noise_share": 0.1})
    assert noisy.low < quiet.low < quiet.high < noisy.high


@pytest.mark.parametrize(
    ("changed", "speedup"),
    [
        pytest.param({"batch_curve.error_share": 0.8}, 1 / 0.6, id="it may all be noise"),
        pytest.param(
            {"batch_curve.fixed_share": 1.0, "batch_curve.error_share": 0.9}, 1 / 0.6, id="more tokens, less time"
        ),
        pytest.param({"batch_curve.fixed_share": 1.0, "batch_curve.error_share": 0.1}, 1 / 0.92, id="hardly any"),
    ],
)
def test_a_fit_that_does_not_tell_a_gain_from_none_gives_a_bound(changed, speedup):
    """Half of what a step spends on micro-batches, 0.8 of it, is the most that can go."""
    found = padding(**changed)
    assert (found.speedup, found.low, found.high) == pytest.approx((speedup, 1.0, speedup))
    assert found.basis == "bound"


@pytest.mark.parametrize("missing", ["batch_curve.fixed_share", "batch_curve.error_share", "step.mean_ms"])
def test_without_a_fit_it_is_a_bound(missing):
    found = padding(**{missing: None})
    assert (found.speedup, found.low, found.basis) == (pytest.approx(1 / (1 - 0.5 * 0.9)), 1.0, "bound")


def test_a_phase_that_was_not_seen_takes_nothing_from_the_part():
    assert padding(**{"step.optimizer_share": None}).share == pytest.approx(0.75 * 0.5)


@pytest.mark.parametrize("changed", [{"loader.pad_share": None}, {"loader.dynamic_pad_share": 0.7}])
def test_nothing_to_gain(changed):
    assert padding(**changed) is None


@pytest.mark.parametrize(
    ("half", "ratio"),
    [
        pytest.param(0.625, 0.625, id="half the width says what the fit says"),
        pytest.param(0.7, 0.7, id="width counts less"),
        pytest.param(0.5, 0.25 + 0.25 / 2 + 0.5 / 4, id="width counts by its square too"),
        pytest.param(0.1, 0.25 + 0.75 / 4, id="noise: no less than all of it by the square"),
    ],
)
def test_half_the_width_was_tried(half, ratio):
    """Padding of 0.6 becomes 0.2: half of the width goes."""
    found = padding(**{"batch_curve.narrow_ratio": half})
    assert found.share == pytest.approx(0.8 * (1 - ratio))
    assert found.low < found.speedup < found.high
