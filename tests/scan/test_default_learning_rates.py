"""Optimizers that a Trainer gets, and the learning rate that a command gives."""

from __future__ import annotations

import pytest

from autotune.scan import scan

TRAIN = """
import bitsandbytes as bnb
import torch
from transformers import HfArgumentParser, Trainer, TrainingArguments
from datasets import load_dataset

{above}

def main():
    (args,) = HfArgumentParser(TrainingArguments).parse_args_into_dataclasses()
    model = load()
    {groups}
    optimizer = {optimizer}
    optimizers = {pair}
    trainer = {trainer}(model=model, args=args, train_dataset=load_dataset("x"), optimizers=optimizers)
    trainer.train()

main()
"""
COMMAND = "python train.py --output_dir out --learning_rate 3e-4"


@pytest.fixture
def ignored(tmp_path):
    """ignored(**parts): the given rate, the optimizer's, and the places."""

    def of(command=COMMAND, **parts):
        defaults = {
            "above": "",
            "groups": "pass",
            "optimizer": "bnb.optim.Adam8bit(params=model.parameters(), betas=(0.9, 0.99))",
            "pair": "(optimizer, None)",
            "trainer": "Trainer",
        }
        (tmp_path / "train.py").write_text(TRAIN.format(**{**defaults, **parts}), encoding="utf-8")
        (tmp_path / "train.sh").write_text(f"#!/bin/bash\n{command}\n", encoding="utf-8")
        facts = {one.name: one for each in scan([tmp_path], root=tmp_path).bundles for one in each.facts}
        found = facts.get("code.ignored_lr")
        places = [(place.file, place.line) for place in found.places] if found else []
        return (found.value, facts["code.trainer_default_lr"].value, places) if found else None

    return of


@pytest.mark.parametrize(
    ("case", "rate"),
    [
        ({}, 1e-3),
        ({"optimizer": "torch.optim.AdamW(model.parameters())"}, 1e-3),
        ({"optimizer": "torch.optim.NAdam(model.parameters(), weight_decay=0.1)"}, 2e-3),
        ({"optimizer": "bnb.optim.PagedLion8bit(model.parameters())"}, 1e-4),
        ({"groups": 'g = [{"params": model.parameters()}]', "optimizer": "torch.optim.Adam(g)"}, 1e-3),
        ({"above": "class Own(Trainer):\n    pass", "trainer": "Own"}, 1e-3),
    ],
    ids=["8bit", "torch", "another default", "lion", "groups", "own trainer"],
)
def test_the_default_of_the_class(ignored, case, rate):
    given, default, places = ignored(**case)
    assert (given, default) == (3e-4, rate)
    assert [file for file, _ in places] == ["train.py", "train.sh"]


def test_the_same_rate_is_stated_for_the_rule_to_compare(ignored):
    assert ignored(command="python train.py --output_dir out --learning_rate 1e-3")[:2] == (1e-3, 1e-3)


@pytest.mark.parametrize(
    "case",
    [
        {"command": "python train.py --output_dir out"},
        {"command": "python train.py --output_dir out --learning_rate $LR"},
        {"optimizer": "torch.optim.Adam(model.parameters(), lr=args.learning_rate)"},
        {"optimizer": "torch.optim.Adam(model.parameters(), args.learning_rate)"},
        {"optimizer": "torch.optim.Adam(model.parameters(), **options)"},
        {"optimizer": "torch.optim.SGD(model.parameters())"},
        {"optimizer": "make(model)"},
        {"groups": 'g = [{"params": model.parameters(), "lr": 0.1}]', "optimizer": "torch.optim.Adam(g)"},
        {"pair": "(optimizer, torch.optim.lr_scheduler.OneCycleLR(optimizer, 0.1))"},
        {"pair": "(None, None)"},
        {"pair": "load()"},
        {"above": "class Own(Trainer):\n    def create_optimizer(self):\n        pass", "trainer": "Own"},
        {"above": "class Own:\n    pass", "trainer": "Own"},
    ],
    ids=["none given", "a variable", "given", "by place", "options", "has no default", "not known",
         "of a group", "a schedule", "the Trainer's", "a pair not known", "own maker", "no Trainer"],
)  # fmt: skip
def test_what_nothing_is_said_of(ignored, case):
    assert ignored(**case) is None
