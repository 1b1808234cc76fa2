"""Calls that get other arguments than the script gives, on this process's own torch."""

from __future__ import annotations

import inspect
import os
from types import ModuleType

import pytest
import torch
from torch.utils.data import DataLoader

from autotune.collect.request import Override
from autotune.probe.hooks import override

ROWS = [0] * 32


def here(at: str, arguments, lines: int = 30) -> Override:
    """An override of the calls on the next `lines` lines of the test."""
    frame = inspect.currentframe().f_back
    return Override(at, os.path.abspath(__file__), frame.f_lineno, frame.f_lineno + lines, arguments)


def test_the_loader_of_the_line_gets_the_values_and_the_others_keep_theirs(attach):
    attach(overrides=(here("loader", {"batch_size": 8, "num_workers": 2, "prefetch_factor": 4}, 1),))
    loader = DataLoader(ROWS, batch_size=2)
    other = DataLoader(ROWS, batch_size=2)
    assert (loader.batch_size, loader.num_workers, loader.prefetch_factor) == (8, 2, 4)
    assert (other.batch_size, other.num_workers) == (2, 0)


def test_a_positional_argument_is_replaced_and_those_behind_it_stay(attach):
    attach(overrides=(here("loader", {"batch_size": 8}),))
    loader = DataLoader(ROWS, 2, True)
    assert loader.batch_size == 8
    assert type(loader.sampler).__name__ == "RandomSampler"


def test_a_loader_that_a_library_makes_on_the_line_is_left_alone(attach):
    attach(overrides=(here("loader", {"batch_size": 8}),))
    library = {}
    exec(compile("def rebuild(loader, **more): return type(loader)(loader.dataset, **more)", "lib.py", "exec"), library)
    assert library["rebuild"](DataLoader(ROWS, batch_size=2), batch_size=4).batch_size == 4


def test_the_probe_records_what_was_in_force(attach):
    session = attach(overrides=(here("loader", {"num_workers": 1}),))
    DataLoader(ROWS)
    assert session.loaders[0]["arguments"]["num_workers"] == 1


@pytest.mark.parametrize("kind", [torch.optim.Adam, torch.optim.AdamW, torch.optim.SGD])
def test_an_optimizer_gets_it_whichever_class_it_is(attach, kind):
    attach(overrides=(here("optimizer", {"fused": True}),))
    assert kind([torch.nn.Parameter(torch.zeros(2))], lr=0.1).defaults["fused"] is True


def test_threads_are_what_was_asked_whatever_the_script_says(attach):
    before = torch.get_num_threads()
    session = attach(overrides=(Override("threads", "", 0, 0, {"num_threads": 1}),))
    try:
        torch.set_num_threads(before + 3)
        assert torch.get_num_threads() == 1
    finally:
        session.detach()
        torch.set_num_threads(before)


def _module(name: str, kind: str, body: str) -> ModuleType:
    module = ModuleType(name)
    exec(compile(body, f"/lib/site-packages/{name}.py", "exec", dont_inherit=True), module.__dict__)
    assert hasattr(module, kind)
    return module


ARGUMENTS = """
class TrainingArguments:  # as a dataclass generates them
    def __init__(self, per_device_train_batch_size=8, gradient_accumulation_steps=1):
        self.per_device_train_batch_size = per_device_train_batch_size
        self.gradient_accumulation_steps = gradient_accumulation_steps
        self.__post_init__()

    def __post_init__(self):
        self.train_batch_size = self.per_device_train_batch_size * 1


class SFTConfig(TrainingArguments):
    def __init__(self, per_device_train_batch_size=8, gradient_accumulation_steps=1, packing=False):
        self.packing = packing
        self.per_device_train_batch_size = per_device_train_batch_size
        self.gradient_accumulation_steps = gradient_accumulation_steps
        self.__post_init__()

    def __post_init__(self):
        super().__post_init__()
"""

TRAINER = """
class {name}:
    def __init__(self, *, {key}=1, other=0):
        self.{key}, self.other = {key}, other
"""


@pytest.mark.parametrize("kind", ["TrainingArguments", "SFTConfig"])
def test_fields_of_training_arguments_are_set_before_others_follow_from_them(attach, kind):
    given = {"per_device_train_batch_size": 2, "gradient_accumulation_steps": 4}
    session = attach(overrides=(here("hf_args", given),))
    module = _module("transformers.training_args", kind, ARGUMENTS)
    override.on_import(session, module)
    made = getattr(module, kind)(per_device_train_batch_size=8)
    assert (made.per_device_train_batch_size, made.gradient_accumulation_steps, made.train_batch_size) == (2, 4, 2)


@pytest.mark.parametrize(
    ("at", "module", "name", "key"),
    [
        ("accelerator", "accelerate.accelerator", "Accelerator", "gradient_accumulation_steps"),
        ("lightning", "lightning.pytorch.trainer.trainer", "Trainer", "accumulate_grad_batches"),
    ],
)
def test_a_frameworks_object_gets_its_keyword(attach, at, module, name, key):
    session = attach(overrides=(here(at, {key: 4}),))
    made = _module(module, name, TRAINER.format(name=name, key=key))
    override.on_import(session, made)
    assert getattr(getattr(made, name)(other=3), key) == 4


def test_nothing_is_replaced_without_overrides(attach):
    init, threads = DataLoader.__init__, torch.set_num_threads
    session = attach()
    module = _module("accelerate.accelerator", "Accelerator", TRAINER.format(name="Accelerator", key="x"))
    before = module.Accelerator.__init__
    override.on_import(session, module)
    assert module.Accelerator.__init__ is before
    assert torch.set_num_threads is threads
    session.detach()
    assert DataLoader.__init__ is init
