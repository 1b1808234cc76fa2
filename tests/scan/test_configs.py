from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from autotune.catalogue.dialects import dialects, readings
from autotune.model.scanned import ConsumerCall
from autotune.scan.configs import matching_arguments, read_config, recognise
from autotune.scan.settings import settings_of
from autotune.syntax import json, toml, yaml

CONFIGS = Path(__file__).parents[2] / "fixtures" / "configs"
READERS = {".yaml": ("yaml", yaml.read), ".yml": ("yaml", yaml.read), ".json": ("json", json.read)}
READERS[".toml"] = ("toml", toml.read)


def read(text: str, suffix: str = ".yaml") -> ConsumerCall | None:
    syntax, reader = READERS[suffix]
    return read_config(reader(text.encode(), "file"), "file", syntax)


def given_by(name: str) -> tuple[str, dict[str, object]] | None:
    """The dialect of a fixture, and the settings that its keys give."""
    path = CONFIGS / name
    call = read(path.read_text(encoding="utf-8"), path.suffix)
    if call is None:
        return None
    settings = settings_of([call], {})
    return call.dialect, {one.name: one.value for one in settings if one.origin == "static"}


EXPECTED: dict[str, tuple[str, dict[str, object]]] = {
    "accelerate_config.yaml": (
        "accelerate_config",
        {
            "train.precision": "bf16-mixed",
            "train.compile": False,
            "fsdp.version": 2,
            "fsdp.activation_checkpointing": True,
        },
    ),
    "axolotl.yml": (
        "axolotl",
        {
            "loader.batch_size": 8,
            "data.max_length": 2048,
            "loader.num_workers": 4,
            "train.accumulation_steps": 1,
            "train.activation_checkpointing": True,
            "train.precision": "bf16-mixed",
            "train.matmul_precision": "high",
            "optimizer.fused": True,
            "logging.interval_steps": 20,
            "data.packing": True,
            "model.attention": "flash_attention_2",
            "train.epochs": 2.0,
            "train.learning_rate": 0.0002,
            "optimizer.name": "adamw_torch_fused",
        },
    ),
    "deepspeed.json": (
        "deepspeed",
        {"zero.stage": 2, "train.accumulation_steps": 2, "train.precision": "bf16", "train.global_batch": 256},
    ),
    "gptneox.yml": (
        "gptneox",
        {
            "loader.num_workers": 4,
            "loader.batch_size": 16,
            "train.accumulation_steps": 1,
            "train.activation_checkpointing": False,
            "train.precision": "fp16",
            "checkpoint.interval_steps": 1000,
            "evaluation.interval_steps": 500,
            "logging.interval_steps": 50,
            "data.max_length": 2048,
            "train.max_steps": 10000,
            "train.learning_rate": 0.0006,
            "optimizer.name": "Adam",
            "zero.stage": 1,
        },
    ),
    "hf_trainer.json": (
        "hf_trainer",
        {
            "loader.num_workers": 4,
            "loader.batch_size": 16,
            "train.accumulation_steps": 2,
            "train.precision": "bf16-mixed",
            "logging.interval_steps": 50,
            "train.epochs": 3.0,
            "train.learning_rate": 5e-05,
            "checkpoint.strategy": "epoch",
            "evaluation.strategy": "epoch",
        },
    ),
    "hydra.yaml": (
        "hydra",
        {
            "loader.num_workers": 4,
            "loader.batch_size": 64,
            "loader.pin_memory": True,
            "loader.persistent_workers": True,
        },
    ),
    "lightning.yaml": (
        "lightning",
        {
            "train.accumulation_steps": 2,
            "train.precision": "bf16-mixed",
            "train.anomaly_detection": False,
            "train.epochs": 10.0,
        },
    ),
    "lightning_cli.yaml": (
        "lightning_cli",
        {
            "train.accumulation_steps": 2,
            "logging.interval_steps": 50,
            "loader.num_workers": 4,
            "loader.batch_size": 64,
            "loader.pin_memory": True,
            "train.precision": "bf16-mixed",
            "train.epochs": 10.0,
            "train.learning_rate": 0.001,
        },
    ),
    "litgpt.yaml": (
        "litgpt",
        {
            "logging.interval_steps": 10,
            "loader.num_workers": 4,
            "loader.batch_size": 8,
            "train.precision": "bf16",
            "optimizer.fused": True,
            "checkpoint.interval_steps": 500,
            "evaluation.interval_steps": 200,
            "data.max_length": 1024,
            "train.epochs": 2.0,
            "train.learning_rate": 0.0002,
            "train.global_batch": 16,
            "optimizer.name": "torch.optim.AdamW",
            "train.accumulation_steps": 1,
        },
    ),
    "llamafactory.yaml": (
        "llamafactory",
        {
            "loader.num_workers": 4,
            "loader.batch_size": 8,
            "train.accumulation_steps": 1,
            "train.activation_checkpointing": False,
            "checkpoint.interval_steps": 500,
            "logging.interval_steps": 20,
            "data.max_length": 1024,
            "data.packing": True,
            "train.epochs": 2.0,
            "train.learning_rate": 0.0001,
            "train.precision": "bf16-mixed",
            "model.attention": "flash_attention_2",
        },
    ),
    "llmfoundry.yaml": (
        "llmfoundry",
        {
            "loader.num_workers": 8,
            "loader.batch_size": 32,
            "loader.pin_memory": True,
            "train.activation_checkpointing": False,
            "train.precision": "bf16-mixed",
            "evaluation.interval_steps": 500,
            "data.max_length": 2048,
            "model.attention": "flash_attention_2",
            "train.learning_rate": 0.0006,
            "train.global_batch": 256,
            "optimizer.name": "decoupled_adamw",
            "fsdp.activation_checkpointing": False,
        },
    ),
    "nanotron.yaml": (
        "nanotron",
        {
            "loader.num_workers": 4,
            "loader.batch_size": 8,
            "train.accumulation_steps": 1,
            "train.precision": "bf16",
            "optimizer.fused": True,
            "checkpoint.interval_steps": 1000,
            "logging.interval_steps": 10,
            "data.max_length": 2048,
            "train.max_steps": 20000,
            "train.learning_rate": 0.0003,
            "optimizer.name": "adamW",
        },
    ),
    "nemo.yaml": (
        "nemo",
        {
            "loader.num_workers": 4,
            "loader.batch_size": 8,
            "train.precision": "bf16-mixed",
            "checkpoint.interval_steps": 500,
            "evaluation.interval_steps": 500,
            "logging.interval_steps": 10,
            "data.max_length": 1024,
            "train.max_steps": 10000,
            "train.learning_rate": 0.0003,
            "train.global_batch": 64,
            "optimizer.name": "distributed_fused_adam",
            "checkpoint.total_limit": 3,
        },
    ),
    "olmo.yaml": (
        "olmo",
        {
            "loader.num_workers": 8,
            "loader.batch_size": 32,
            "loader.prefetch_factor": 4,
            "loader.pin_memory": True,
            "loader.persistent_workers": True,
            "train.precision": "bf16-mixed",
            "checkpoint.interval_steps": 1000,
            "evaluation.interval_steps": 1000,
            "logging.interval_steps": 10,
            "data.max_length": 2048,
            "train.learning_rate": 0.0006,
            "train.global_batch": 64,
            "optimizer.name": "adamw",
        },
    ),
    "swift.yaml": (
        "swift",
        {
            "loader.num_workers": 4,
            "loader.batch_size": 8,
            "train.accumulation_steps": 1,
            "train.activation_checkpointing": False,
            "checkpoint.interval_steps": 500,
            "logging.interval_steps": 20,
            "data.max_length": 2048,
            "data.packing": True,
            "train.epochs": 2.0,
            "train.learning_rate": 0.0001,
            "train.precision": "bf16",
            "model.attention": "flash_attention_2",
            "checkpoint.total_limit": 2,
        },
    ),
    "timm.yaml": (
        "timm",
        {
            "loader.num_workers": 8,
            "loader.batch_size": 256,
            "loader.pin_memory": True,
            "train.precision": "bf16-mixed",
            "logging.interval_steps": 100,
            "train.epochs": 100.0,
            "train.learning_rate": 0.001,
            "optimizer.name": "adamw",
        },
    ),
    "torchtitan.toml": (
        "torchtitan",
        {
            "train.compile": True,
            "loader.batch_size": 4,
            "train.activation_checkpointing": True,
            "optimizer.fused": True,
            "checkpoint.interval_steps": 500,
            "logging.interval_steps": 10,
            "data.max_length": 8192,
            "train.max_steps": 10000,
            "train.learning_rate": 0.0003,
            "optimizer.name": "AdamW",
            "checkpoint.total_limit": 2,
        },
    ),
    "torchtune.yaml": (
        "torchtune",
        {
            "train.accumulation_steps": 1,
            "train.activation_checkpointing": False,
            "train.compile": True,
            "logging.interval_steps": 10,
            "data.packing": True,
            "loader.batch_size": 4,
            "train.precision": "bf16",
            "optimizer.fused": True,
            "data.max_length": 2048,
            "train.epochs": 1.0,
            "train.learning_rate": 0.0003,
            "optimizer.name": "torch.optim.AdamW",
        },
    ),
    "trl.yaml": (
        "trl",
        {
            "loader.num_workers": 4,
            "loader.batch_size": 8,
            "train.accumulation_steps": 4,
            "checkpoint.interval_steps": 500,
            "train.activation_checkpointing": False,
            "train.precision": "bf16-mixed",
            "logging.interval_steps": 20,
            "data.max_length": 2048,
            "data.packing": True,
            "model.attention": "flash_attention_2",
            "train.learning_rate": 2e-05,
            "checkpoint.total_limit": 2,
        },
    ),
    "kohya.toml": (
        "kohya",
        {
            "loader.num_workers": 0,
            "loader.batch_size": 4,
            "train.activation_checkpointing": True,
            "train.precision": "bf16-mixed",
            "checkpoint.interval_steps": 500,
            "model.attention": "sdpa",
            "train.epochs": 10.0,
            "train.learning_rate": 0.0001,
            "optimizer.name": "AdamW8bit",
        },
    ),
    "kohya_gui.json": (
        "kohya_gui",
        {
            "loader.persistent_workers": False,
            "train.accumulation_steps": 1,
            "train.activation_checkpointing": True,
            "train.precision": "fp16-mixed",
            "loader.num_workers": 0,
            "loader.batch_size": 2,
            "train.compile": False,
            "model.attention": "xformers",
            "train.epochs": 4.0,
            "train.learning_rate": 0.0001,
            "optimizer.name": "AdamW8bit",
        },
    ),
    "diffusion_pipe.toml": (
        "diffusion_pipe",
        {
            "loader.batch_size": 2,
            "train.accumulation_steps": 4,
            "train.activation_checkpointing": True,
            "train.precision": "bf16",
            "checkpoint.interval_steps": 200,
            "evaluation.interval_steps": 100,
            "train.epochs": 100.0,
            "train.learning_rate": 2e-05,
            "optimizer.name": "adamw_optimi",
        },
    ),
    "verl.yaml": (
        "verl",
        {
            "loader.batch_size": 8,
            "train.activation_checkpointing": True,
            "train.epochs": 15.0,
            "train.learning_rate": 1e-06,
        },
    ),
    "verl_sft.yaml": (
        "verl_sft",
        {
            "loader.batch_size": 4,
            "train.activation_checkpointing": False,
            "checkpoint.interval_steps": 100,
            "data.max_length": 1024,
            "train.epochs": 3.0,
            "train.learning_rate": 1e-05,
            "train.global_batch": 256,
        },
    ),
    "compvis.yaml": (
        "compvis",
        {
            "loader.num_workers": 0,
            "loader.batch_size": 48,
            "train.accumulation_steps": 2,
            "train.activation_checkpointing": True,
            "train.precision": "fp16-mixed",
            "checkpoint.interval_steps": 100,
            "train.epochs": 40.0,
        },
    ),
    "fairseq_hydra.yaml": (
        "fairseq_hydra",
        {
            "loader.num_workers": 0,
            "logging.interval_steps": 200,
            "train.accumulation_steps": 2,
            "train.activation_checkpointing": True,
            "train.precision": "fp16-mixed",
            "checkpoint.interval_steps": 5000,
            "train.max_steps": 400000,
            "train.learning_rate": 0.0005,
            "optimizer.name": "adam",
            "checkpoint.total_limit": 1,
        },
    ),
    "ultralytics.yaml": (
        "ultralytics",
        {
            "loader.num_workers": 0,
            "loader.batch_size": 32,
            "train.precision": "fp32",
            "train.epochs": 50.0,
            "train.learning_rate": 0.01,
            "optimizer.name": "AdamW",
        },
    ),
    "speechbrain.yaml": (
        "speechbrain",
        {
            "loader.num_workers": 0,
            "loader.batch_size": 6,
            "train.accumulation_steps": 2,
            "train.precision": "fp16-mixed",
            "train.epochs": 15.0,
            "train.learning_rate": 0.9,
        },
    ),
    "yacs.yaml": (
        "yacs",
        {
            "loader.num_workers": 0,
            "train.precision": "fp32",
            "train.epochs": 120.0,
            "train.learning_rate": 0.008,
            "train.global_batch": 64,
            "optimizer.name": "SGD",
        },
    ),
    "hydra_targets.yaml": (
        "hydra",
        {
            "loader.num_workers": 0,
            "loader.batch_size": 8,
            "loader.pin_memory": False,
        },
    ),
    "diffusers.yaml": (
        "diffusers",
        {
            "loader.num_workers": 0,
            "loader.batch_size": 4,
            "train.accumulation_steps": 2,
            "train.activation_checkpointing": True,
            "train.precision": "bf16-mixed",
            "checkpoint.interval_steps": 500,
            "evaluation.interval_steps": 1000,
            "model.attention": "xformers",
            "train.max_steps": 10000,
            "train.learning_rate": 0.0001,
        },
    ),
    "project.yaml": (
        "project",
        {"loader.num_workers": 0, "loader.batch_size": 8, "loader.pin_memory": False},
    ),
}


@pytest.mark.parametrize("name", EXPECTED)
def test_a_config_of_each_dialect_is_recognised_and_read(name: str) -> None:
    assert given_by(name) == EXPECTED[name]


def test_each_dialect_of_data_files_has_a_config() -> None:
    data = {name for name, rows in dialects().items() if set(rows.get("syntaxes", ())) & {"yaml", "json", "toml"}}
    assert {dialect for dialect, _ in EXPECTED.values()} == data
    files = {path.name for path in CONFIGS.iterdir()}
    assert files == {*EXPECTED, "nanogpt.py", "not_a_training.yaml"}


def test_a_workflow_that_mentions_training_is_none() -> None:
    assert given_by("not_a_training.yaml") is None


@pytest.mark.parametrize(
    "text",
    [
        "services:\n  trainer:\n    image: torch\n    command: python train.py\n    deploy: {resources: {}}\n",
        "name: env\nchannels: [conda-forge]\ndependencies:\n  - pytorch=2.4\n  - pip: [transformers]\n",
        "site_name: docs\nnav:\n  - index.md\ntheme: {name: material}\n",
        "apiVersion: batch/v1\nkind: Job\nspec: {template: {spec: {containers: []}}}\n",
        "repos:\n  - repo: local\n    hooks: [{id: a}]\n",
        "defaults:\n  - _self_\nbatch_size: 4\nhydra: {run: {dir: out}}\n",
        "model_name_or_path: a\ntemplate: qwen\ninfer_backend: huggingface\n",
        "model_name_or_path: a\nfinetuning_type: lora\nexport_dir: out\ndo_train: false\n",
        "models: [{model: a}]\nmerge_method: slerp\nbase_model: a\n",
        "model: resnet50\nbatch_size: 4\n",
        "trainer: someone\nmodel: 3\n",
        "train:\n  batch_size: 4\n  workers: 2\n",
        "output_dir: public\n",
        "optimizer: adam\nlr: 0.1\nepochs: 3\n",
        "",
        "- 1\n- 2\n",
        "just text\n",
    ],
)
def test_what_is_no_config_of_a_training_is_none(text: str) -> None:
    assert read(text) is None


@pytest.mark.parametrize(
    "text",
    [
        '{"architectures": ["LlamaForCausalLM"], "hidden_size": 64, "num_hidden_layers": 2, "vocab_size": 10}',
        '{"name": "web", "version": "1.0.0", "scripts": {"train": "python train.py"}}',
        '{"peft_type": "LORA", "r": 8, "base_model_name_or_path": "a"}',
        '{"global_step": 10, "log_history": [{"loss": 1.0, "learning_rate": 1e-4}], "max_steps": 100}',
    ],
)
def test_json_of_models_and_packages_is_none(text: str) -> None:
    assert read(text, ".json") is None


def test_two_dialects_in_one_file_are_none() -> None:
    assert recognise({"tokens.micro_batch_size": 1, "tokens.batch_accumulation_per_replica": 1}, "yaml") == "nanotron"
    both = {"distributed_type": "NO", "num_processes": 2, "max_duration": "1ep", "train_loader.name": "text"}
    assert recognise({**both, "global_train_batch_size": 8}, "yaml") is None


def test_the_dialect_that_extends_another_wins() -> None:
    keys = {"output_dir": "o", "per_device_train_batch_size": 4}
    assert recognise(keys, "json") == "hf_trainer"
    assert recognise({**keys, "model_name_or_path": "m", "dataset_name": "d"}, "yaml") == "trl"
    assert recognise({**keys, "stage": "sft", "do_train": True}, "yaml") == "llamafactory"
    assert recognise({**keys, "stage": "sft", "do_train": False}, "yaml") is None


def test_a_dialect_is_not_looked_for_in_other_syntaxes() -> None:
    keys = {"zero_optimization.stage": 2, "train_micro_batch_size_per_gpu": 4}
    assert recognise(keys, "json") == "deepspeed"
    assert recognise(keys, "toml") is None


LITGPT = """\
checkpoint_dir: a
width: 4
train:
  global_batch_size: ${width}
  micro_batch_size: ${.global_batch_size}
  log_interval: ${oc.env:LOG}
  save_interval: ???
  epochs: ${train.missing}
  max_steps: ${train.max_steps}
"""


def test_an_interpolation_is_followed_to_where_a_person_edits_it() -> None:
    call = read(LITGPT)
    assert call is not None
    micro = call.arguments["train.micro_batch_size"]
    assert (micro.value, micro.known, micro.key) == (4, True, "train.micro_batch_size")
    assert (micro.location.line, micro.location.key) == (2, "width")
    unknown = [key for key, one in call.arguments.items() if not one.known]
    assert unknown == ["train.log_interval", "train.save_interval", "train.epochs", "train.max_steps"]


HYPERPYYAML = """\
output_folder: !ref out/<seed>
number_of_epochs: 3
opts: {size: 4}
lr: !ref <opts[size]>
precision: !ref <missing>
train_dataloader_opts:
  batch_size: !ref <opts[size]>
  num_workers: !ref <opts[size]> * 2
"""


def test_a_ref_of_hyperpyyaml_is_followed_and_what_is_worked_out_of_it_is_not_known() -> None:
    call = read(HYPERPYYAML)
    assert call is not None
    assert call.dialect == "speechbrain"
    found = {one.name: (one.value, one.location and one.location.key) for one in settings_of([call], {})}
    assert found == {
        "loader.batch_size": (4, "opts.size"),
        "train.epochs": (3.0, "number_of_epochs"),
        "train.learning_rate": (4.0, "opts.size"),
    }


TARGETS = """trainer: {_target_: project.Trainer}
data:
  train: {_target_: torch.utils.data.DataLoader, batch_size: 8, num_workers: 0}
  EVAL: {_target_: torch.utils.data.DataLoader, batch_size: 1, num_workers: 2}
"""


@pytest.mark.parametrize(
    ("name", "batch"), [("val", 8), ("test_loader", 8), ("eval2", 8), ("train_more", None), ("plain", None)]
)
def test_the_loader_that_a_target_makes_to_train_with(name: str, batch: int | None) -> None:
    call = read(TARGETS.replace("EVAL", name))
    assert call is not None
    found = {one.name: one.value for one in settings_of([call], {})}
    assert found.get("loader.batch_size") == batch


@pytest.mark.parametrize(
    ("text", "workers"),
    [
        ("batch_size: 8\nnum_workers: 0\nlr: 0.1\n", 0),
        ("data: {batch_size: 8, num_workers: 0}\nlr: 0.1\n", 0),
        ("train: {batch_size: 8, num_workers: 0}\nval: {batch_size: 1, num_workers: 2}\nlr: 0.1\n", 0),
        ("a: {batch_size: 8, num_workers: 0}\nb: {batch_size: 1, num_workers: 2}\nlr: 0.1\n", None),
        ("test: {batch_size: 8, num_workers: 0}\nlr: 0.1\n", None),
        ("server: {num_workers: 0}\ntrain: {batch_size: 8}\nlr: 0.1\n", None),
    ],
)
def test_a_projects_own_file(text: str, workers: int | None) -> None:
    call = read(text)
    assert call is not None
    assert call.is_open
    found = {one.name: one.value for one in settings_of([call], {})}
    assert found.get("loader.num_workers") == workers


def test_places_are_those_of_the_values() -> None:
    text = "# top\nbase_model: m\ndatasets: []\nmicro_batch_size:   8  # small\nadapter:\n"
    call = read(text)
    assert call is not None
    location = call.arguments["micro_batch_size"].location
    assert location.span is not None
    assert text[location.span.start : location.span.end] == "8"
    assert (location.line, location.column, location.key) == (4, 21, "micro_batch_size")
    assert call.arguments["adapter"].value is None
    assert call.arguments["adapter"].known
    assert not call.arguments["datasets"].known


@pytest.mark.parametrize(
    ("text", "is_open"),
    [
        ("base_model: m\ndatasets: []\nadapter: lora\n", False),
        ("_target_: lightning.pytorch.trainer.Trainer\nmax_epochs: 10\n", True),
        ("defaults: [a]\ntrainer: {max_epochs: 1}\nexp_manager: {}\nmodel: {a: 1}\n", True),
    ],
)
def test_a_part_of_a_hydra_config_is_open(text: str, is_open: bool) -> None:
    call = read(text)
    assert call is not None
    assert call.is_open is is_open


def test_arguments_that_match_a_pattern() -> None:
    call = read(
        "base_model: m\nadapter: qlora\nfsdp: [full_shard, auto_wrap]\nfsdp_config: {a: 1}\ndatasets: [{a: b}]\n"
    )
    assert call is not None
    keys = {
        pattern: [one.key for one in matching_arguments(call, pattern)]
        for pattern in ("adapter=*lora", "adapter=lora", "fsdp", "fsdp.0", "fsdp_config", "base*", "b=*")
    }
    assert keys == {
        "adapter=*lora": ["adapter"],
        "adapter=lora": [],
        "fsdp": ["fsdp.0", "fsdp.1"],
        "fsdp.0": ["fsdp.0"],
        "fsdp_config": ["fsdp_config.a"],
        "base*": ["base_model"],
        "b=*": [],
    }


KEYS = st.sampled_from(sorted({key for name in dialects() for one in readings(name, {}) for key in one.keys}))
VALUES = st.none() | st.booleans() | st.integers() | st.floats() | st.text() | st.just("${a.b}") | st.just("auto")


@given(st.dictionaries(KEYS, VALUES), st.sampled_from(["yaml", "json"]))
def test_no_keys_are_an_error(values: dict[str, object], syntax: str) -> None:
    found = recognise(values, syntax)
    assert found is None or syntax in dialects()[found]["syntaxes"]
