from __future__ import annotations

import pytest

from autotune.probe.alone import step_result


def event(kind, length):
    return (kind, 1000, 1000 + length, -1, 0)


@pytest.mark.parametrize(
    ("wall", "events", "step", "micro"),
    [
        pytest.param(100, [event("forward", 40), event("backward", 50)], 100, 100, id="plain"),
        pytest.param(100, [event("backward", 50), event("optimizer", 10)], 100, 90, id="update is no micro-batch"),
        pytest.param(
            100, [event("backward", 20), event("backward", 20), event("optimizer", 10)], 100, 45, id="accumulation"
        ),
        pytest.param(100, [event("fetch", 30), event("backward", 50)], 70, 70, id="fetch is taken off"),
        pytest.param(
            100,
            [event(kind, 5) for kind in ("iter", "checkpoint", "evaluation", "logging", "serialise")]
            + [event("backward", 5)],
            75,
            75,
            id="interruptions are taken off",
        ),
    ],
)
def test_a_replayed_step(wall, events, step, micro):
    assert step_result("replay", [(wall, events)]) == {"step_ns": [step]}
    assert step_result("micro_batch", [(wall, events)]) == {"micro_ns": [micro]}


def test_a_step_without_a_backward_says_nothing_of_a_micro_batch():
    spans = [(100, [event("optimizer", 10)]), (80, [event("backward", 10)])]
    assert step_result("micro_batch", spans) == {"micro_ns": [80]}
    assert step_result("replay", spans) == {"step_ns": [100, 80]}
