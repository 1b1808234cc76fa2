from __future__ import annotations

import pytest

from autotune.probe.alone import _is_enough, step_result


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
    updates = [sum(end - start for kind, start, end, _, _ in events if kind == "optimizer")]
    assert step_result("replay", [(wall, events)]) == {"step_ns": [step], "update_ns": updates}
    assert step_result("replay_changed", [(wall, events)])["step_ns"] == [step]
    assert step_result("micro_batch", [(wall, events)]) == {"micro_ns": [micro]}


def test_a_step_without_a_backward_says_nothing_of_a_micro_batch():
    spans = [(100, [event("optimizer", 10)]), (80, [event("backward", 10)])]
    assert step_result("micro_batch", spans) == {"micro_ns": [80]}
    assert step_result("replay", spans) == {"step_ns": [100, 80], "update_ns": [10, 0]}


@pytest.mark.parametrize(
    ("batches", "elapsed_s", "enough"),
    [(31, 1.0, False), (32, 0.31, True), (100, 0.29, False), (256, 0.0, True), (1, 2.01, True)],
)
def test_a_loader_alone_is_timed_for_so_long(batches, elapsed_s, enough):
    assert _is_enough(batches, round(elapsed_s * 1e9)) is enough
