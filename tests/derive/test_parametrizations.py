"""What it costs that a parametrized weight is computed at each use: steps of 65 ms, 20 forward and 30 backward."""

from __future__ import annotations

import pytest
from build import recording, steps

from autotune.derive import derive
from autotune.derive.recording_view import MS

FILE = "/home/me/train.py"
WEIGHT = "cell.parametrizations.weight"


def sampled(phase, line, module="", count=100):
    return {"phase": phase, "frames": [(FILE, line, "main", 1)], "callee": "", "module": module, "count": count}


def facts(calls, module=f"{WEIGHT}.0", counted=True, micros=1):
    """Of 3 sampled steps in which WEIGHT was computed `calls` times, by the module inside that took the time."""
    kind = {"type": "ParametrizationList", "is_frozen": False, "is_trained": True}
    names = [{"name": WEIGHT, **kind, **({"calls": calls} if counted else {})}]
    lines = {
        "lines": {
            "steps": 3,
            "wall_ns": 1,
            "count": 300,
            "rows": [sampled("forward", 72, module), sampled("backward", 90)],
            "modules": names,
            "statements": [],
            "loops": [],
        },
        "operations": {
            "steps": 1,
            "wall_ns": 1,
            "backward_ns": 30 * MS,
            "rows": [
                {
                    "file": FILE,
                    "line": 72,
                    "function": "main",
                    "module": module,
                    "ops": 9,
                    "op_ns": 20 * MS,
                    "backward_ns": 30 * MS,
                    "host_ns": 20 * MS,
                    "double_ns": 0,
                    "names": [],
                }
            ],
            "modules": [],
            "runs": [],
            "statements": [],
        },
    }
    derived = derive([recording(script=steps(4, micros), lines=lines)])
    return {fact.name: fact for fact in derived.facts if fact.name.startswith("parametrization.")}


def test_all_but_the_first_time_are_done_again_with_their_backward_passes():
    found = facts(calls=30)
    assert found["parametrization.share"].value == pytest.approx((20 + 30) / 65 * 0.9)
    assert found["parametrization.weight"].value == "cell.weight"
    assert found["parametrization.calls"].value == 10
    assert [(place.file, place.line) for place in found["parametrization.share"].places] == [(FILE, 72)]


def test_calls_are_counted_for_a_micro_batch():
    assert facts(calls=60, micros=2)["parametrization.calls"].value == 10


@pytest.mark.parametrize(("calls", "module"), [(3, f"{WEIGHT}.0"), (30, "cell")])
def test_a_weight_that_is_computed_once_and_what_is_no_parametrization_cost_nothing(calls, module):
    found = facts(calls, module)
    assert {name: fact.value for name, fact in found.items()} == {"parametrization.share": 0.0}


def test_without_counts_nothing_is_said():
    assert facts(30, counted=False) == {}
