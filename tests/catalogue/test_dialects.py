from __future__ import annotations

import ast
from functools import cache
from importlib.util import find_spec
from pathlib import Path

import pytest

from autotune import catalogue
from autotune.catalogue.dialects import SettingSpelling, about, dialects, extends, is_before, is_own, readings
from autotune.catalogue.vocabulary import read

INSTALLED = ("raw", "hf_trainer", "trl", "accelerate", "lightning", "fabric")
"""Frameworks whose source the tests can read."""

FRAMEWORKS = tuple(name for rows in dialects().values() for name in rows["frameworks"])
OFFLOADS = ("offload_optimizer", "offload_parameters", "offload_activations")
TOP = (
    "frameworks",
    "package",
    "call",
    "extends",
    "otherwise",
    "syntaxes",
    "processes",
    "lora",
    "full",
    "partial",
    "model",
    "shape",
    "fsdp",
    "flat",
    "inherits",
    "open",
    "weak",
    "method",
    "targets",
    "starts",
    "replaces",
    "changes",
    "arguments",
)
ENTRY = (
    "key",
    "also",
    "call",
    "note",
    "default",
    "only",
    "unless",
    "form",
    "values",
    "means",
    "versions",
    "follows",
    "missing",
    "read_only",
)


@pytest.mark.parametrize("framework", FRAMEWORKS)
def test_every_framework_spells_every_setting_or_says_why_not(framework: str) -> None:
    for setting in catalogue.settings():
        found = catalogue.spelling(framework, setting, {})
        assert (found is None) == bool(catalogue.why_missing(framework, setting)), setting


@pytest.mark.parametrize("name", dialects())
def test_files_name_only_what_exists(name: str) -> None:
    rows = dialects()[name]
    assert set(rows) <= {*TOP, "fsdp_legacy", "fsdp_xla", *OFFLOADS, "recognise", *catalogue.settings()}
    assert rows.get("extends", name) in dialects()
    for table in rows.get("recognise", ()):
        assert set(table) <= {"all", "some", "two", "none"}
        assert set(table) - {"none"}, "a table without a key that must be there is every file"
    for setting in set(rows) & set(catalogue.settings()):
        entries = [rows[setting], *rows[setting].get("versions", ())]
        assert set().union(*entries) <= {*ENTRY, "since", "before"}


@pytest.mark.parametrize("name", dialects())
def test_canonical_values_are_of_the_type_of_their_setting(name: str) -> None:
    kinds = {"bool": {"true", "false"}, "int": set("0123456789")}
    for reading in readings(name, {}):
        kind = catalogue.kinds()[reading.setting]
        written = {str(value).lower() for value in (*reading.values, *reading.means.values())}
        assert written <= kinds.get(kind, written), reading.setting
        if reading.setting == "train.precision":
            assert written <= {"fp32", "bf16-mixed", "fp16-mixed", "bf16", "fp16"}


def test_frameworks_are_named_once_and_the_measured_ones_are_there() -> None:
    assert len(FRAMEWORKS) == len(set(FRAMEWORKS))
    assert set(INSTALLED) <= set(FRAMEWORKS)
    packages = {f"software.{rows['package']}" for rows in dialects().values() if set(rows["frameworks"]) & {*INSTALLED}}
    assert packages <= set(catalogue.facts())


def test_what_extends_what() -> None:
    assert extends("llamafactory", "hf_trainer")
    assert extends("trl", "trl")
    assert not extends("hf_trainer", "trl")
    assert about("trl", "model") == about("hf_trainer", "model") == ("model_name_or_path", "model_name")
    assert about("unheard of", "model") == ()


@pytest.mark.parametrize(
    ("name", "call", "own"),
    [
        ("hf_trainer", "", True),
        ("hf_trainer", "TrainingArguments", True),
        ("hf_trainer", "Seq2SeqTrainingArguments", True),
        ("hf_trainer", "Trainer", False),
        ("hf_trainer", "DataLoader", False),
        ("trl", "GRPOConfig", True),
        ("trl", "ModelConfig", False),
        ("lightning", "Trainer", True),
        ("lightning", "ModelCheckpoint", False),
        ("accelerate", "DataLoaderConfiguration", False),
        ("torch", "BitsAndBytesConfig", False),
    ],
)
def test_what_takes_the_settings_of_a_dialect(name: str, call: str, own: bool) -> None:
    assert is_own(name, call) is own


def test_files_outlive_releases_and_only_the_one_in_force_has_a_default() -> None:
    def rows(versions):
        found = [one for one in readings("hf_trainer", versions) if one.setting == "data.group_by_length"]
        return [(one.keys[0], one.default) for one in found]

    old, new = ("group_by_length", {}), ("train_sampling_strategy", {})
    assert rows({}) == [new, old]
    assert rows({"transformers": (5, 1)}) == [("group_by_length", {"group_by_length": False}), new]
    assert rows({"transformers": (5, 2)}) == [(new[0], {"train_sampling_strategy": "random"}), old]


@pytest.mark.parametrize("release", [(5,), (5, 0), (5, 0, 0)])
def test_a_release_is_the_same_with_zeros_behind_it(release: tuple[int, ...]) -> None:
    assert not is_before(release, (5,))
    assert not is_before((5, 0), release)
    assert is_before((4, 57, 6), release)
    assert is_before(release, (5, 0, 1))


def test_a_read_only_entry_says_nothing_about_writing() -> None:
    newest = {"trl": (1, 16), "transformers": (5, 23)}
    found = catalogue.spelling("trl", "train.activation_checkpointing", newest)
    assert found is not None
    assert found.key == "activation_checkpointing"
    reading = next(one for one in readings("trl", newest) if one.setting == "train.activation_checkpointing")
    assert reading.default == {"gradient_checkpointing": True}


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


@pytest.mark.parametrize(
    ("framework", "setting", "value", "arguments"),
    [
        ("llmfoundry", "train.precision", "bf16-mixed", {"precision": "amp_bf16"}),
        ("llmfoundry", "checkpoint.interval_steps", 500, {"save_interval": "500ba"}),
        ("lightning", "evaluation.interval_steps", 500, {"val_check_interval": 500}),
        ("lightning_cli", "train.precision", "fp16-mixed", {"trainer.precision": "16-mixed"}),
        ("llamafactory", "model.attention", "eager", {"flash_attn": "disabled"}),
        ("swift", "model.attention", "flash_attention_2", {"attn_impl": "flash_attn"}),
        ("axolotl", "train.activation_checkpointing", True, {"gradient_checkpointing": True}),
        ("llmfoundry", "model.attention", "sdpa", None),
        ("nanotron", "train.precision", "bf16-mixed", None),
        ("hf_trainer", "train.matmul_precision", "medium", None),
    ],
)
def test_a_value_that_the_framework_does_not_have_is_not_written(framework, setting, value, arguments) -> None:
    found = catalogue.spelling(framework, setting, {})
    assert found is not None
    assert found.takes(value) is (arguments is not None)
    assert arguments is None or found.arguments(value) == arguments


def test_a_spelling_without_a_value_map_takes_every_value() -> None:
    assert SettingSpelling("num_workers").arguments(4) == {"num_workers": 4}


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
    "BitsAndBytesConfig": ("transformers", "utils/quantization_config.py"),
    "DistributedDataParallel": ("torch", "nn/parallel/distributed.py"),
    "DistributedDataParallelKwargs": ("accelerate", "utils/dataclasses.py"),
    "FullyShardedDataParallelPlugin": ("accelerate", "utils/dataclasses.py"),
    "DeepSpeedPlugin": ("accelerate", "utils/dataclasses.py"),
    "ProjectConfiguration": ("accelerate", "utils/dataclasses.py"),
}
"""Calls that take settings."""

OTHERS = {
    "DPOConfig": ("trl", "trainer/dpo_config.py"),
    "SFTTrainer": ("trl", "trainer/sft_trainer.py"),
    "DPOTrainer": ("trl", "trainer/dpo_trainer.py"),
    "_BaseConfig": ("trl", "trainer/base_config.py"),
}


@cache
def arguments_of(call: str) -> frozenset[str]:
    """What the installed source of `call` takes, read without importing it."""
    package, path = (SOURCES | OTHERS)[call]
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
        for framework in INSTALLED
        for setting in catalogue.settings()
        if (found := catalogue.spelling(framework, setting, {})) is not None and found.call == call
        for argument in [found.key, *(key for row in found.values.values() for key in row)]
    }
    assert spelled
    elsewhere = {"dtype"} if call in ("TrainingArguments", "SFTConfig") else set()
    of_trainer = arguments_of("TrainingArguments") if call == "SFTConfig" else frozenset()
    assert sorted({key.split(".")[0] for key in spelled} - arguments_of(call) - of_trainer - elsewhere) == []


def default_of(call: str, name: str) -> object:
    """The default of a field of the installed release; None for what is no literal."""
    package, path = (SOURCES | OTHERS)[call]
    spec = find_spec(package)
    if spec is None or not spec.submodule_search_locations:
        pytest.skip(f"{package} is not installed")
    source = Path(spec.submodule_search_locations[0], path).read_text(encoding="utf-8")
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name) and node.target.id == name:
            values = [one.value for one in getattr(node.value, "keywords", ()) if one.arg == "default"]
            return ast.literal_eval(values[0]) if values else None
        if isinstance(node, ast.FunctionDef) and node.name == "__init__":
            given = zip([*node.args.kwonlyargs], node.args.kw_defaults, strict=True)
            found = [value for one, value in given if one.arg == name and isinstance(value, ast.Constant)]
            if found:
                return found[0].value
    return None


@pytest.mark.parametrize(
    ("dialect", "call"), [("hf_trainer", "TrainingArguments"), ("trl", "_BaseConfig"), ("lightning", "Trainer")]
)
def test_stated_defaults_are_those_of_the_installed_release(dialect: str, call: str) -> None:
    newest = {"transformers": (99,), "trl": (99,), "lightning": (99,)}
    own = [one for one in readings(dialect, newest) if one.is_main]
    stated = {key: value for one in own for key, value in one.default.items()}
    known = {key: value for key in stated if (value := default_of(call, key)) is not None}
    assert known
    assert {key: stated[key] for key in known} == known


@pytest.mark.parametrize("library", read("renames.toml")["library"], ids=lambda row: row.get("names", ["own"])[0])
def test_the_installed_release_has_no_removed_argument(library) -> None:
    call = library.get("names", ["TrainingArguments"])[0]
    if call not in SOURCES | OTHERS:
        pytest.skip(f"the source of {call} is not read here")
    assert sorted(set(library["arguments"]) & arguments_of(call)) == []


def test_every_dialect_has_a_row_in_the_table() -> None:
    text = (Path(__file__).parents[2] / "docs" / "dialects.md").read_text(encoding="utf-8")
    firsts = [line.split("|")[1] for line in text.splitlines() if line.startswith("| `")]
    named = [name for first in firsts for name in first.replace("`", "").replace(" ", "").split(",")]
    assert sorted(named) == sorted(dialects())
