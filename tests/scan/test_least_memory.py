"""ME011 with `check --on`: launches whose weights, gradients and optimizer state are too large, and healthy twins."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from autotune.catalogue.devices import asked
from autotune.check.check import CheckOptions, check
from autotune.model.checked import Checked

LLAMAFACTORY = """\
model_name_or_path: meta-llama/Llama-2-7b-hf
stage: sft
do_train: true
finetuning_type: full
dataset: identity
bf16: true
output_dir: out
"""
AXOLOTL = """\
base_model: NousResearch/Meta-Llama-3-8B
datasets:
  - path: tatsu-lab/alpaca
    type: alpaca
sequence_len: 4096
micro_batch_size: 2
optimizer: adamw_torch_fused
bf16: auto
"""
TORCHTUNE = """\
model:
  _component_: torchtune.models.llama3_1.llama3_1_8b
tokenizer:
  _component_: torchtune.models.llama3.llama3_tokenizer
dataset:
  _component_: torchtune.datasets.alpaca_dataset
batch_size: 2
epochs: 1
optimizer:
  _component_: torch.optim.AdamW
  lr: 2e-5
dtype: bf16
"""
TORCHTITAN = """\
[job]
dump_folder = "out"
[model]
name = "llama3"
flavor = "8B"
[optimizer]
name = "AdamW"
[training]
local_batch_size = 1
seq_len = 8192
"""
TRAINER = "torchrun --nproc_per_node {n} train.py --model_name_or_path huggyllama/llama-7b --output_dir out {more}\n"
SCRIPT = """\
from transformers import AutoModelForCausalLM, HfArgumentParser, Trainer, TrainingArguments
args, = HfArgumentParser(TrainingArguments).parse_args_into_dataclasses()
model = AutoModelForCausalLM.from_pretrained("huggyllama/llama-7b"){more}
Trainer(model, args, train_dataset=None).train()
"""


def zero(stage: int, **more: object) -> str:
    return json.dumps({"zero_optimization": {"stage": stage, **more}, "train_micro_batch_size_per_gpu": "auto"})


def checked(root: Path, card: str, **files: str) -> Checked:
    for name, text in files.items():
        stem, _, end = name.rpartition("_")
        (root / f"{stem}.{end}").write_text(text, encoding="utf-8")
    return check(CheckOptions((Path(),), select=("ME011",), on=asked(card)), cwd=root)


def least(root: Path, card: str = "a100-40", **files: str) -> tuple[bool, float | None]:
    """Whether ME011 fires, and the billions of bytes of the first bundle that says some."""
    result = checked(root, card, **files)
    found = [
        fact.value
        for one in result.bundles
        for fact in one.bundle.facts
        if fact.name == "config.least_memory_bytes" and isinstance(fact.value, int)
    ]
    return bool(result.findings), found[0] / 1e9 if found else None


def of_llamafactory(root: Path, more: str = "", command: str = "llamafactory-cli train a.yaml", **files: str) -> object:
    return least(root, a_yaml=LLAMAFACTORY + more, run_sh=f"{command}\n", **files)


def test_full_training_of_7b_does_not_fit_40_gb(tmp_path: Path) -> None:
    result = checked(tmp_path, "a100-40", a_yaml=LLAMAFACTORY, run_sh="llamafactory-cli train a.yaml\n")
    (finding,) = result.findings
    assert finding.message.startswith("each device holds at least 48 GiB (weights in 16 bits + gradients + state of A")
    assert "for 7.0 billion parameters, and the device, A100 40GB SXM, has 39 GiB" in finding.message
    assert result.fails


def test_the_same_is_silent_on_a_card_that_has_more(tmp_path: Path) -> None:
    assert least(tmp_path, "a100-80", a_yaml=LLAMAFACTORY, run_sh="llamafactory-cli train a.yaml\n")[0] is False


def test_without_a_card_nothing_is_said(tmp_path: Path) -> None:
    (tmp_path / "a.yaml").write_text(LLAMAFACTORY)
    (tmp_path / "run.sh").write_text("llamafactory-cli train a.yaml\n")
    assert not check(CheckOptions((Path(),), select=("ME011",)), cwd=tmp_path).findings


@pytest.mark.parametrize(
    ("more", "billions"),
    [
        ("finetuning_type: lora\n", 12.88),
        ("finetuning_type: freeze\n", 12.88),
        ("finetuning_type: lora\nquantization_bit: 4\n", 3.22),
        ("finetuning_type: lora\nquantization_method: hqq\nquantization_bit: 4\n", None),
        ("optim: adafactor\n", 25.76),
        ("optim: paged_adamw_8bit\n", 25.76),
        ("optim: adamw_8bit\n", 32.2),
        ("optim: sgd\n", 25.76),
        ("use_badam: true\n", 12.88),
    ],
)
def test_what_takes_less(tmp_path: Path, more: str, billions: float | None) -> None:
    text = LLAMAFACTORY.replace("finetuning_type: full\n", "") if "finetuning_type" in more else LLAMAFACTORY
    fires, found = least(tmp_path, a_yaml=text + more, run_sh="llamafactory-cli train a.yaml\n")
    assert (fires, found) == (False, billions and pytest.approx(billions))


def test_zero_divides_what_its_stage_shards(tmp_path: Path) -> None:
    """7e9 x 0.92 parameters: 2 bytes for weights, 2 for gradients, 12 for DeepSpeed's copy and Adam's moments."""
    command = "FORCE_TORCHRUN=1 NPROC_PER_NODE=8 llamafactory-cli train a.yaml"
    for stage, each in ((1, 4 + 12 / 8), (2, 2 + 14 / 8), (3, 16 / 8)):
        found = of_llamafactory(tmp_path, "deepspeed: z.json\n", command, z_json=zero(stage))
        assert found == (False, pytest.approx(6.44 * each)), stage
    two = "FORCE_TORCHRUN=1 NPROC_PER_NODE=2 llamafactory-cli train a.yaml"
    assert of_llamafactory(tmp_path, "deepspeed: z.json\n", two, z_json=zero(3)) == (True, pytest.approx(51.52))


def test_what_is_sharded_among_an_unknown_number_does_not_count(tmp_path: Path) -> None:
    assert of_llamafactory(tmp_path, "deepspeed: z.json\n", z_json=zero(3)) == (False, None)
    assert of_llamafactory(tmp_path, "deepspeed: z.json\n", z_json=zero(2)) == (False, pytest.approx(12.88))


def test_what_is_offloaded_does_not_count(tmp_path: Path) -> None:
    cpu = {"device": "cpu"}
    found = of_llamafactory(tmp_path, "deepspeed: z.json\n", z_json=zero(2, offload_optimizer=cpu))
    assert found == (False, pytest.approx(12.88))
    assert of_llamafactory(tmp_path, "deepspeed: z.json\n", z_json=zero(3, offload_param=cpu)) == (False, None)


def test_a_config_of_deepspeed_that_cannot_be_read_may_say_anything(tmp_path: Path) -> None:
    assert of_llamafactory(tmp_path, "deepspeed: elsewhere/z.json\n") == (False, None)


@pytest.mark.parametrize(
    ("more", "fires", "billions"),
    [
        ("", True, 58.88),
        ("adapter: lora\n", False, 14.72),
        ("adapter: lora\nload_in_8bit: true\n", False, 7.36),
        ("adapter: qlora\nload_in_4bit: true\n", False, 3.68),
        ("unfrozen_parameters:\n  - lm_head\n", False, 14.72),
        ("fsdp_version: 2\nfsdp_config:\n  reshard_after_forward: true\n", False, None),
        ("device_map: auto\n", False, None),
        ("gptq: true\n", False, None),
        ("gptq: false\nload_in_8bit: false\n", True, 58.88),
        ("tensor_parallel_size: 4\n", False, None),
    ],
)
def test_axolotl(tmp_path: Path, more: str, fires: bool, billions: float | None) -> None:
    assert least(tmp_path, a_yml=AXOLOTL + more) == (fires, billions and pytest.approx(billions))


def test_axolotl_by_accelerate(tmp_path: Path) -> None:
    """The user's own config of accelerate may shard; one that is given says whether it does."""
    command = "accelerate launch {} -m axolotl.cli.train a.yml\n"
    assert least(tmp_path, a_yml=AXOLOTL, run_sh=command.format("")) == (False, None)
    fsdp = "distributed_type: FSDP\nfsdp_config:\n  fsdp_version: 2\nnum_processes: {}\nmixed_precision: bf16\n"
    given = command.format("--config_file fsdp.yaml")
    found = least(tmp_path, a_yml=AXOLOTL, run_sh=given, fsdp_yaml=fsdp.format(8))
    assert found == (False, pytest.approx(58.88 / 8))
    assert least(tmp_path, "t4", a_yml=AXOLOTL, run_sh=given, fsdp_yaml=fsdp.format(2))[0] is True


@pytest.mark.parametrize("name", ["TheBloke/Llama-2-7B-GPTQ", "unsloth/llama-3-8b-bnb-4bit", "openai/gpt-oss-20b", "x"])
def test_a_name_that_says_no_size_in_16_bits(tmp_path: Path, name: str) -> None:
    assert least(tmp_path, a_yml=AXOLOTL.replace("NousResearch/Meta-Llama-3-8B", name)) == (False, None)


def test_experts_share_attention(tmp_path: Path) -> None:
    """Mixtral-8x7B has 46.7 billion parameters, not 56."""
    text = AXOLOTL.replace("NousResearch/Meta-Llama-3-8B", "mistralai/Mixtral-8x7B-v0.1")
    assert least(tmp_path, a_yml=text) == (True, pytest.approx(0.8 * 56 * 8))


def test_torchtune(tmp_path: Path) -> None:
    """One device holds everything; its distributed recipes divide it. The config alone does not say which recipe."""
    single = "tune run full_finetune_single_device --config a.yaml\n"
    assert least(tmp_path, a_yaml=TORCHTUNE, run_sh=single) == (True, pytest.approx(58.88))
    in_backward = f"{TORCHTUNE}optimizer_in_bwd: true\n"
    assert least(tmp_path, a_yaml=in_backward, run_sh=single) == (True, pytest.approx(58.88 - 14.72))
    fp32 = TORCHTUNE.replace("dtype: bf16", "dtype: fp32")
    assert least(tmp_path, a_yaml=fp32, run_sh=single) == (True, pytest.approx(2 * 58.88))
    several = "tune run --nproc_per_node 4 full_finetune_distributed --config a.yaml\n"
    assert least(tmp_path, a_yaml=TORCHTUNE, run_sh=several) == (False, pytest.approx(58.88 / 4))
    lora = TORCHTUNE.replace("llama3_1_8b", "lora_llama3_1_8b")
    assert least(tmp_path, a_yaml=lora, run_sh=single) == (False, pytest.approx(14.72))
    qlora = TORCHTUNE.replace("llama3_1_8b", "qlora_llama3_1_8b")
    assert least(tmp_path, a_yaml=qlora, run_sh=single) == (False, pytest.approx(3.68))
    small = TORCHTUNE.replace("llama3_1.llama3_1_8b", "qwen2_5.qwen2_5_1_5b_base")
    assert least(tmp_path, a_yaml=small, run_sh=single) == (False, pytest.approx(0.92 * 1.5 * 8))
    (tmp_path / "run.sh").unlink()
    assert least(tmp_path, a_yaml=TORCHTUNE) == (False, None)


def test_torchtitan_divides_everything_and_keeps_fp32(tmp_path: Path) -> None:
    command = "torchrun --nproc_per_node {} -m torchtitan.train --job.config_file a.toml\n"
    assert least(tmp_path, a_toml=TORCHTITAN, run_sh=command.format(8)) == (False, pytest.approx(0.92 * 8 * 16 / 8))
    assert least(tmp_path, a_toml=TORCHTITAN, run_sh=command.format(2)) == (True, pytest.approx(0.92 * 8 * 16 / 2))


@pytest.mark.parametrize(
    ("command", "script", "billions"),
    [
        (TRAINER.format(n=1, more=""), SCRIPT.format(more=""), 51.52),
        (TRAINER.format(n=8, more=""), SCRIPT.format(more=""), 51.52),
        (TRAINER.format(n=8, more="$MORE"), SCRIPT.format(more=""), None),
        (TRAINER.format(n=8, more="--fsdp full_shard"), SCRIPT.format(more=""), 51.52 / 8),
        (TRAINER.format(n=1, more="--optim adamw_bnb_8bit"), SCRIPT.format(more=""), 32.2),
        (TRAINER.format(n=1, more=""), SCRIPT.format(more="\nmodel.model.requires_grad_(False)"), None),
        (
            TRAINER.format(n=1, more=""),
            SCRIPT.format(more="\nimport peft\nmodel = peft.get_peft_model(model, c)"),
            None,
        ),
    ],
)
def test_the_trainer(tmp_path: Path, command: str, script: str, billions: float | None) -> None:
    fires, found = least(tmp_path, run_sh=command, train_py=script)
    assert found == (billions and pytest.approx(billions))
    assert fires is (billions is not None and billions > 42.3)
