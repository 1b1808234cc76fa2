from __future__ import annotations

import enum
import math
from types import SimpleNamespace

import pytest

from autotune.probe.hooks import frameworks


class Strategy(enum.Enum):
    STEPS = "steps"


@pytest.mark.parametrize(
    ("value", "expected"),
    [(1, 1), (True, True), (0.5, 0.5), ("no", "no"), (Strategy.STEPS, "steps"), (math.inf, None), (math.nan, None),
     ([1], None), (None, None)],
)  # fmt: skip
def test_only_plain_finite_values_are_read(value, expected):
    assert frameworks._plain(value) == expected


def test_a_field_that_raises_or_is_unknown_is_left_out():
    class Trainer:
        max_steps = 5

        @property
        def estimated_stepping_batches(self):
            raise RuntimeError("only inside fit")

    assert frameworks._fields(Trainer(), ("max_steps", "estimated_stepping_batches", "missing")) == {"max_steps": 5}


def test_a_trainer_is_told_with_the_trainers_that_it_extends():
    base = type("Trainer", (), {"__module__": "transformers.trainer"})
    mixin = type("Mixin", (), {})
    sft = type("SFTTrainer", (mixin, base), {"__module__": "trl.trainer.sft_trainer"})
    mine = type("MyTrainer", (sft,), {"__module__": "__main__"})
    classes = ["__main__.MyTrainer", "trl.SFTTrainer", "transformers.Trainer"]
    assert frameworks._trainer_values(mine()) == {"classes": classes}


@pytest.mark.parametrize(
    ("name", "told"),
    [
        ("PassThroughProfiler", "none"),
        ("AdvancedProfiler", "advanced"),
        ("PyTorchProfiler", "pytorch"),
        ("Mine", "Mine"),
    ],
)
def test_lightnings_profiler_is_told_by_its_class(name, told):
    trainer = SimpleNamespace(profiler=type(name, (), {})(), reload_dataloaders_every_n_epochs=1)
    assert frameworks._lightning_values(trainer) == {"profiler": told, "reload_dataloaders_every_n_epochs": 1}
