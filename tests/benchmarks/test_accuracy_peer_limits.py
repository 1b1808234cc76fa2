"""benchmarks/accuracy/peer_runtime/peer_limits.py: when a training is ended, in one process and in two."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

RUNTIME = Path(__file__).parents[2] / "benchmarks" / "accuracy" / "peer_runtime"


@pytest.fixture
def limits(monkeypatch, tmp_path):
    """The module with a clock of its own: `limits.now[0]` is the time."""
    monkeypatch.setattr(sys, "path", [str(RUNTIME), *sys.path])
    monkeypatch.setenv("PEER_STEPS", "10")
    monkeypatch.setenv("PEER_FOLDER", str(tmp_path))
    # torch.optim takes its own module out of its names.
    optimizers = importlib.import_module("torch.optim.optimizer")
    monkeypatch.setattr(optimizers, "register_optimizer_step_post_hook", lambda hook: None)
    monkeypatch.setitem(sys.modules, "transformers", SimpleNamespace(TrainerCallback=object))
    monkeypatch.setitem(sys.modules, "lightning.pytorch", SimpleNamespace(Callback=object))
    monkeypatch.setitem(sys.modules, "lightning", SimpleNamespace(pytorch=sys.modules["lightning.pytorch"]))
    monkeypatch.delitem(sys.modules, "peer_limits", raising=False)
    module = importlib.import_module("peer_limits")
    now = [0.0]
    monkeypatch.setattr(module, "time", SimpleNamespace(monotonic=lambda: now[0]))
    yield SimpleNamespace(module=module, now=now)
    sys.modules.pop("peer_limits", None)


def test_steps_and_seconds_must_both_be_enough(limits, tmp_path):
    one = limits.module.Limits(10, tmp_path, {})
    assert [one.reached() for _ in range(3)] == [False] * 3
    limits.now[0] = limits.module.LEAST_S
    assert not one.reached()
    for _ in range(10):
        one.count()
    assert one.reached()
    assert one.is_over()


def test_after_the_longest_time_few_steps_are_enough(limits, tmp_path):
    one = limits.module.Limits(10, tmp_path, {})
    assert not one.reached()
    limits.now[0] = limits.module.MOST_S
    assert one.reached()


def test_processes_end_at_one_iteration_that_the_first_has_chosen(limits, tmp_path):
    ranks = [limits.module.Limits(0, tmp_path, {"RANK": str(rank), "WORLD_SIZE": "2"}) for rank in range(2)]
    assert not any(one.reached() for one in ranks)
    limits.now[0] = limits.module.LEAST_S
    ends = []
    for one in reversed(ranks):
        while not one.reached():
            # The second process is behind: it hears of the end later.
            ranks[0].reached() if one is ranks[1] and not one.note.exists() else None
        ends.append(one.iterations)
    assert ends[0] == ends[1] == limits.module.AHEAD + 2


def test_a_trainer_is_told_to_stop(limits):
    limits.module.LIMITS.steps = 3
    control = SimpleNamespace(should_training_stop=False)
    callback = limits.module.trainer_callback()
    callback.on_step_end(None, SimpleNamespace(global_step=2), control)
    limits.now[0] = limits.module.LEAST_S
    callback.on_step_end(None, SimpleNamespace(global_step=2), control)
    assert not control.should_training_stop
    callback.on_step_end(None, SimpleNamespace(global_step=3), control)
    assert control.should_training_stop


def test_a_lightning_trainer_is_told_to_stop(limits):
    limits.module.LIMITS.steps = 3
    trainer = SimpleNamespace(should_stop=False, global_step=3)
    callback = limits.module.lightning_callback()
    callback.on_train_batch_end(trainer, None, None, None, 0)
    assert not trainer.should_stop
    limits.now[0] = limits.module.LEAST_S
    callback.on_train_batch_end(trainer, None, None, None, 0)
    assert trainer.should_stop
