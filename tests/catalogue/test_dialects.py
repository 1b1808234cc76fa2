from __future__ import annotations

import ast
from functools import cache
from importlib.util import find_spec
from pathlib import Path

import pytest

from autotune import catalogue
from autotune.catalogue.dialects import Spelling, dialects

FRAMEWORKS = ("raw", "hf_trainer", "trl", "accelerate", "lightning", "fabric")


@pytest.mark.parametrize("setting", catalogue.settings())
@pytest.mark.parametrize("framework", FRAMEWORKS)
def test_every_framework_spells_every_setting_or_says_why_not(framework: str, setting: str) -> None:
    found = catalogue.spelling(framework, setting, {})
    assert (found is None) == bool(catalogue.why_missing(framework, setting))


def test_files_name_only_what_exists() -> None:
    keys = {"frameworks", "package", "call", "extends", *catalogue.settings()}
    assert {name: sorted(set(rows) - keys) for name, rows in dialects().items()} == {name: [] for name in dialects()}
    named = [name for rows in dialects().values() for name in rows["frameworks"]]
    assert sorted(named) == sorted(FRAMEWORKS)
    assert {rows["extends"] for rows in dialects().values() if "extends" in rows} <= set(dialects())
    packages = {f"software.{rows['package']}" for rows in dialects().values()}
    assert packages <= set(catalogue.facts())


OLD, NEW = {"transformers": (5, 1, 0), "trl": (0, 15)}, {"transformers": (5, 23, 0), "trl": (1, 16)}


@pytest.mark.parametrize(
    ("framework", "setting", "versions", "key", "call"),
    [
        ("raw", "loader.num_workers", {}, "num_workers", "DataLoader"),
        ("raw", "train.matmul_precision", {}, "torch.set_float32_matmul_precision", ""),
        ("hf_trainer", "loader.num_workers", NEW, "dataloader_num_workers", "TrainingArguments"),
        ("hf_trainer", "train.activation_checkpointing", OLD, "gradient_checkpointing", "TrainingArguments"),
        ("hf_trainer", "train.activation_checkpointing", NEW, "activation_checkpointing", "TrainingArguments"),
        ("hf_trainer", "train.activation_checkpointing", {}, "activation_checkpointing", "TrainingArguments"),
        ("hf_trainer", "train.activation_checkpointing", {"transformers": (5, 22, 9)}, "gradient_checkpointing", None),
        ("hf_trainer", "data.group_by_length", OLD, "group_by_length", "TrainingArguments"),
        ("hf_trainer", "data.group_by_length", NEW, "train_sampling_strategy", "TrainingArguments"),
        ("hf_trainer", "train.empty_cache_steps", {"transformers": (4, 42, 4)}, None, None),
        ("hf_trainer", "train.empty_cache_steps", {"transformers": (4, 43)}, "torch_empty_cache_steps", None),
        ("hf_trainer", "train.num_threads", NEW, "torch.set_num_threads", ""),
        ("trl", "data.max_length", OLD, "max_seq_length", "SFTConfig"),
        ("trl", "data.max_length", NEW, "max_length", "SFTConfig"),
        ("trl", "loader.batch_size", NEW, "per_device_train_batch_size", "TrainingArguments"),
        ("trl", "data.group_by_length", OLD, "group_by_length", None),
        ("accelerate", "train.accumulation_steps", {}, "gradient_accumulation_steps", "Accelerator"),
        ("accelerate", "loader.pin_memory", {}, "pin_memory", "DataLoader"),
        ("accelerate", "train.compile_mode", {}, "mode", "TorchDynamoPlugin"),
        ("lightning", "train.accumulation_steps", {}, "accumulate_grad_batches", "Trainer"),
        ("lightning", "checkpoint.interval_steps", {}, "every_n_train_steps", "ModelCheckpoint"),
        ("fabric", "train.precision", {}, "precision", "Fabric"),
        ("fabric", "train.accumulation_steps", {}, None, None),
        ("unheard of", "loader.num_workers", {}, None, None),
        ("raw", "no.setting", {}, None, None),
    ],
)
def test_spelling_by_version(framework: str, setting: str, versions, key: str | None, call: str | None) -> None:
    found = catalogue.spelling(framework, setting, versions)
    assert (found.key if found else None) == key
    if call is not None and found is not None:
        assert found.call == call


@pytest.mark.parametrize(
    ("framework", "setting", "versions", "value", "written", "arguments"),
    [
        ("raw", "loader.num_workers", {}, 4, "num_workers", {"num_workers": 4}),
        ("hf_trainer", "train.precision", {}, "bf16-mixed", "bf16=True", {"bf16": True}),
        ("hf_trainer", "train.precision", {}, "fp32", "bf16=False, fp16=False", {"bf16": False, "fp16": False}),
        ("hf_trainer", "data.group_by_length", OLD, True, "group_by_length", {"group_by_length": True}),
        (
            "trl",
            "data.group_by_length",
            NEW,
            True,
            "train_sampling_strategy='group_by_length'",
            {"train_sampling_strategy": "group_by_length"},
        ),
        ("hf_trainer", "optimizer.fused", {}, True, "optim='adamw_torch_fused'", {"optim": "adamw_torch_fused"}),
        ("lightning", "train.precision", {}, "bf16-mixed", "precision", {"precision": "bf16-mixed"}),
        ("lightning", "train.precision", {}, "fp32", "precision='32-true'", {"precision": "32-true"}),
        ("accelerate", "train.compile", {}, False, "dynamo_backend='no'", {"dynamo_backend": "no"}),
    ],
)
def test_values_are_written_as_the_framework_reads_them(
    framework, setting, versions, value, written, arguments
) -> None:
    found = catalogue.spelling(framework, setting, versions)
    assert found is not None
    assert found.arguments(value) == arguments
    assert found.written(value) == written


def test_a_spelling_without_a_value_map_takes_every_value() -> None:
    assert Spelling("num_workers").arguments(4) == {"num_workers": 4}


SOURCES = {
    "TrainingArguments": ("transformers", "training_args.py"),
    "SFTConfig": ("trl", "trainer/sft_config.py"),
    "ModelConfig": ("trl", "trainer/model_config.py"),
    "Accelerator": ("accelerate", "accelerator.py"),
    "TorchDynamoPlugin": ("accelerate", "utils/dataclasses.py"),
    "Trainer": ("lightning", "pytorch/trainer/trainer.py"),
    "ModelCheckpoint": ("lightning", "pytorch/callbacks/model_checkpoint.py"),
    "Fabric": ("lightning", "fabric/fabric.py"),
    "DataLoader": ("torch", "utils/data/dataloader.py"),
}


@cache
def arguments_of(call: str) -> frozenset[str]:
    """What the installed source of `call` takes, read without importing it."""
    package, path = SOURCES[call]
    spec = find_spec(package)
    if spec is None or not spec.submodule_search_locations:
        pytest.skip(f"{package} is not installed")
    tree = ast.parse(Path(spec.submodule_search_locations[0], path).read_text(encoding="utf-8"))
    body = next(node for node in tree.body if isinstance(node, ast.ClassDef) and node.name == call)
    fields = [
        node.target.id for node in body.body if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name)
    ]
    inits = [node for node in body.body if isinstance(node, ast.FunctionDef) and node.name == "__init__"]
    return frozenset([*fields, *(arg.arg for node in inits for arg in [*node.args.args, *node.args.kwonlyargs])])


@pytest.mark.parametrize("call", SOURCES)
def test_the_newest_spelling_is_an_argument_of_the_installed_release(call: str) -> None:
    spelled = {
        argument: setting
        for framework in FRAMEWORKS
        for setting in catalogue.settings()
        if (found := catalogue.spelling(framework, setting, {})) is not None and found.call == call
        for argument in [found.key, *(key for row in found.values.values() for key in row)]
    }
    assert spelled
    elsewhere = {"dtype"} if call == "TrainingArguments" else set()
    assert sorted(set(spelled) - arguments_of(call) - elsewhere) == []
