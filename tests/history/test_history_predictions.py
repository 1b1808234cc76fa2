from __future__ import annotations

import json

import pytest

from autotune import state
from autotune.history import predictions
from autotune.model.finding import Gain
from autotune.model.verified import Estimate, Verdict


@pytest.fixture
def root(tmp_path):
    (tmp_path / ".autotune").mkdir()
    return tmp_path


MEASURED = Estimate(1.5, 1.45, 1.55, 0.01)


def gain(speedup: float, low: float, high: float) -> Gain:
    return Gain(speedup, low, high, "modelled")


def test_predictions_are_compared_with_what_was_measured(root) -> None:
    for predicted in (gain(1.5, 1.4, 1.6), gain(1.65, 1.6, 1.7), gain(3.0, 1.2, 4.0)):
        predictions.append(root, "run-1", predicted, Verdict.FASTER, MEASURED)
    found = predictions.calibration(root)
    assert (found.num, found.num_inside) == (3, 2)
    assert found.median_error == pytest.approx(0.1)
    assert str(found) == "of 3 predictions 2 inside the range; median error 10%"
    assert json.loads((state.project(root) / predictions.FILE).read_text().splitlines()[0]) == {
        "schema": 1,
        "run": "run-1",
        "verdict": "faster",
        "predicted": [1.5, 1.4, 1.6],
        "measured": [1.5, 1.45, 1.55],
    }


def test_what_could_not_be_told_teaches_nothing(root) -> None:
    predictions.append(root, "run-1", gain(1.5, 1.4, 1.6), Verdict.CANNOT_TELL, MEASURED)
    predictions.append(root, "run-1", None, Verdict.FASTER, MEASURED)
    predictions.append(root, "run-1", Gain(1.5, 1.0, 1.5, "bound"), Verdict.FASTER, MEASURED)
    assert not (state.project(root) / predictions.FILE).exists()
    assert predictions.calibration(root) is None


def test_lines_that_cannot_be_read_are_left_out(root) -> None:
    predictions.append(root, "run-1", gain(1.5, 1.4, 1.6), Verdict.FASTER, MEASURED)
    good = (state.project(root) / predictions.FILE).read_text()
    other = json.dumps({**json.loads(good), "schema": 2})
    (state.project(root) / predictions.FILE).write_text("\n".join(["{", "[]", "{}", "null", other, good]))
    assert predictions.calibration(root).num == 1
    assert str(predictions.calibration(root)).startswith("of 1 prediction 1 inside")
    (state.project(root) / predictions.FILE).write_bytes(b"\xff\xff")
    assert predictions.calibration(root) is None
