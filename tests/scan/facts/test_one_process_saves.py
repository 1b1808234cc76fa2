"""Saves of a Trainer on one process, and on all."""

from __future__ import annotations

import pytest
from scanning import facts, scan

TRAINER = """
from transformers import Trainer
{class_}
trainer = {made}(model, args)
trainer.train()
{after}
"""
SAVE = "    trainer.save_model('out')"


def is_saved_by_one(after: str, made: str = "Trainer", class_: str = "") -> object:
    return facts(scan(TRAINER.format(after=after, made=made, class_=class_))).get("code.saves_on_one_process")


@pytest.mark.parametrize(
    "condition",
    [
        "trainer.is_world_process_zero()",
        "trainer.accelerator.is_main_process",
        "accelerator.is_local_main_process",
        "training_args.local_rank == 0",
        "torch.distributed.get_rank() == 0",
        "rank == 0 and save",
    ],
)
def test_on_one_process(condition: str) -> None:
    assert is_saved_by_one(f"if {condition}:\n{SAVE}") is True


@pytest.mark.parametrize(
    "after",
    [
        "trainer.save_model('out')",
        f"if save:\n{SAVE}",
        f"if not trainer.is_world_process_zero():\n    pass\nelse:\n{SAVE}",
        f"if trainer.is_world_process_zero():\n    pass\nelse:\n{SAVE}",
        f"if rank != 0:\n{SAVE}",
        f"if rank == 1:\n{SAVE}",
        f"if rank == 0 or trainer.is_deepspeed_enabled:\n{SAVE}",
        f"if trainer.is_world_process_zero() and not is_zero3:\n{SAVE}",
        f"if rank == 0 or save:\n{SAVE}",
        f"if trainer.is_world_process_zero() == False:\n{SAVE}",
        f"if trainer.is_world_process_zero() == 0:\n{SAVE}",
        f"if rank == False:\n{SAVE}",
        f"if training_args.local_rank:\n{SAVE}",
        f"if torch.distributed.get_rank():\n{SAVE}",
        f"if False and rank == 0:\n{SAVE}",
        "if rank == 0:\n    tokenizer.save_pretrained('out')",
        "if rank == 0:\n    ema.save_model('out')",
    ],
)
def test_on_all_or_none(after: str) -> None:
    assert is_saved_by_one(after) is None


def test_a_class_that_saves_in_its_own_way() -> None:
    own = "class Own(Trainer):\n    def save_model(self, folder):\n        pass\n"
    assert is_saved_by_one(f"if rank == 0:\n{SAVE}", "Own", own) is None
    assert is_saved_by_one(f"if rank == 0:\n{SAVE}", "Own", own.replace("save_model", "log")) is True


def test_no_trainer_of_transformers() -> None:
    code = f"from lightning import Trainer\ntrainer = Trainer()\ntrainer.fit(model)\nif rank == 0:\n{SAVE}"
    assert "code.saves_on_one_process" not in facts(scan(code))
