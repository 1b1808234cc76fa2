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
BY_TORCHRUN = "torchrun --nproc_per_node 1 -m axolotl.cli.train a.yml\n"
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
    assert finding.message.startswith("each device holds at least 44 GiB (weights in 16 bits + gradients + state of A")
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
        ("finetuning_type: lora\n", 11.9),
        ("finetuning_type: freeze\n", 11.9),
        ("finetuning_type: lora\nquantization_bit: 4\n", 2.975),
        ("finetuning_type: lora\nquantization_method: hqq\nquantization_bit: 4\n", None),
        ("optim: adafactor\n", 23.8),
        ("optim: paged_adamw_8bit\n", 23.8),
        ("optim: adamw_8bit\n", 29.75),
        ("optim: sgd\n", 23.8),
        ("use_badam: true\n", 11.9),
    ],
)
def test_what_takes_less(tmp_path: Path, more: str, billions: float | None) -> None:
    text = LLAMAFACTORY.replace("finetuning_type: full\n", "") if "finetuning_type" in more else LLAMAFACTORY
    fires, found = least(tmp_path, a_yaml=text + more, run_sh="llamafactory-cli train a.yaml\n")
    assert (fires, found) == (False, billions and pytest.approx(billions))


def test_zero_divides_what_its_stage_shards(tmp_path: Path) -> None:
    """7e9 x 0.85 parameters: 2 bytes for weights, 2 for gradients, 12 for DeepSpeed's copy and Adam's moments."""
    command = "FORCE_TORCHRUN=1 NPROC_PER_NODE=8 llamafactory-cli train a.yaml"
    for stage, each in ((1, 4 + 12 / 8), (2, 2 + 14 / 8), (3, 16 / 8)):
        found = of_llamafactory(tmp_path, "deepspeed: z.json\n", command, z_json=zero(stage))
        assert found == (False, pytest.approx(5.95 * each)), stage
    two = "FORCE_TORCHRUN=1 NPROC_PER_NODE=2 llamafactory-cli train a.yaml"
    assert of_llamafactory(tmp_path, "deepspeed: z.json\n", two, z_json=zero(3)) == (True, pytest.approx(47.6))


def test_what_is_sharded_among_an_unknown_number_does_not_count(tmp_path: Path) -> None:
    assert of_llamafactory(tmp_path, "deepspeed: z.json\n", z_json=zero(3)) == (False, None)
    assert of_llamafactory(tmp_path, "deepspeed: z.json\n", z_json=zero(2)) == (False, pytest.approx(11.9))


def test_what_is_offloaded_does_not_count(tmp_path: Path) -> None:
    cpu = {"device": "cpu"}
    found = of_llamafactory(tmp_path, "deepspeed: z.json\n", z_json=zero(2, offload_optimizer=cpu))
    assert found == (False, pytest.approx(11.9))
    assert of_llamafactory(tmp_path, "deepspeed: z.json\n", z_json=zero(3, offload_param=cpu)) == (False, None)


def test_a_config_of_deepspeed_that_cannot_be_read_may_say_anything(tmp_path: Path) -> None:
    assert of_llamafactory(tmp_path, "deepspeed: elsewhere/z.json\n") == (False, None)


@pytest.mark.parametrize(
    ("more", "fires", "billions"),
    [
        ("", True, 54.4),
        ("adapter: lora\n", False, 13.6),
        ("adapter: lora\nload_in_8bit: true\n", False, 6.8),
        ("adapter: qlora\nload_in_4bit: true\n", False, 3.4),
        ("unfrozen_parameters:\n  - lm_head\n", False, 13.6),
        ("fsdp_version: 2\nfsdp_config:\n  reshard_after_forward: true\n", True, 54.4),
        ("device_map: auto\n", False, None),
        ("gptq: true\n", False, None),
        ("gptq: false\nload_in_8bit: false\n", True, 54.4),
        ("tensor_parallel_size: 4\n", False, None),
    ],
)
def test_axolotl(tmp_path: Path, more: str, fires: bool, billions: float | None) -> None:
    assert least(tmp_path, a_yml=AXOLOTL + more, run_sh=BY_TORCHRUN) == (fires, billions and pytest.approx(billions))


def test_axolotl_by_accelerate(tmp_path: Path) -> None:
    """The user's own config of accelerate may shard; one that is given says whether it does."""
    command = "accelerate launch {} -m axolotl.cli.train a.yml\n"
    assert least(tmp_path, a_yml=AXOLOTL, run_sh=command.format("")) == (False, None)
    fsdp = "distributed_type: FSDP\nfsdp_config:\n  fsdp_version: 2\nnum_processes: {}\nmixed_precision: bf16\n"
    given = command.format("--config_file fsdp.yaml")
    found = least(tmp_path, a_yml=AXOLOTL, run_sh=given, fsdp_yaml=fsdp.format(8))
    assert found == (False, pytest.approx(54.4 / 8))
    assert least(tmp_path, "t4", a_yml=AXOLOTL, run_sh=given, fsdp_yaml=fsdp.format(2))[0] is True


@pytest.mark.parametrize(
    "name",
    [
        "TheBloke/Llama-2-7B-GPTQ",
        "unsloth/llama-3-8b-bnb-4bit",
        "openai/gpt-oss-20b",
        "x",
        "yuhuili/EAGLE-LLaMA3-Instruct-8B",
        "deepseek-ai/DeepSeek-R1-Distill-Qwen-7B",
        "internlm/internlm2_5-7b-chat-1m",
        "runs-of-llama-3-8b/checkpoint",
    ],
)
def test_a_name_that_says_no_size_in_16_bits(tmp_path: Path, name: str) -> None:
    text = AXOLOTL.replace("NousResearch/Meta-Llama-3-8B", name)
    assert least(tmp_path, a_yml=text, run_sh=BY_TORCHRUN) == (False, None)


def test_experts_share_attention(tmp_path: Path) -> None:
    """Mixtral-8x7B has 46.7 billion parameters, not 56."""
    text = AXOLOTL.replace("NousResearch/Meta-Llama-3-8B", "mistralai/Mixtral-8x7B-v0.1")
    assert least(tmp_path, a_yml=text, run_sh=BY_TORCHRUN) == (True, pytest.approx(0.7 * 56 * 8))


def test_torchtune(tmp_path: Path) -> None:
    """One device holds everything; its distributed recipes divide it. The config alone does not say which recipe."""
    single = "tune run full_finetune_single_device --config a.yaml\n"
    assert least(tmp_path, a_yaml=TORCHTUNE, run_sh=single) == (True, pytest.approx(54.4))
    in_backward = f"{TORCHTUNE}optimizer_in_bwd: true\n"
    assert least(tmp_path, a_yaml=in_backward, run_sh=single) == (False, pytest.approx(54.4 - 13.6))
    fp32 = TORCHTUNE.replace("dtype: bf16", "dtype: fp32")
    assert least(tmp_path, a_yaml=fp32, run_sh=single) == (True, pytest.approx(2 * 54.4))
    several = "tune run --nproc_per_node 4 full_finetune_distributed --config a.yaml\n"
    assert least(tmp_path, a_yaml=TORCHTUNE, run_sh=several) == (False, pytest.approx(54.4 / 4))
    lora = TORCHTUNE.replace("llama3_1_8b", "lora_llama3_1_8b")
    assert least(tmp_path, a_yaml=lora, run_sh=single) == (False, pytest.approx(13.6))
    qlora = TORCHTUNE.replace("llama3_1_8b", "qlora_llama3_1_8b")
    assert least(tmp_path, a_yaml=qlora, run_sh=single) == (False, pytest.approx(3.4))
    small = TORCHTUNE.replace("llama3_1.llama3_1_8b", "qwen2_5.qwen2_5_1_5b_base")
    assert least(tmp_path, a_yaml=small, run_sh=single) == (False, pytest.approx(0.85 * 1.5 * 8))
    (tmp_path / "run.sh").unlink()
    assert least(tmp_path, a_yaml=TORCHTUNE) == (False, None)


def test_torchtitan_divides_everything_and_keeps_fp32(tmp_path: Path) -> None:
    command = "torchrun --nproc_per_node {} -m torchtitan.train --job.config_file a.toml\n"
    assert least(tmp_path, a_toml=TORCHTITAN, run_sh=command.format(8)) == (False, pytest.approx(0.85 * 8 * 16 / 8))
    assert least(tmp_path, a_toml=TORCHTITAN, run_sh=command.format(2)) == (True, pytest.approx(0.85 * 8 * 16 / 2))


@pytest.mark.parametrize(
    ("command", "script", "billions"),
    [
        (TRAINER.format(n=1, more=""), SCRIPT.format(more=""), 47.6),
        (TRAINER.format(n=8, more=""), SCRIPT.format(more=""), 47.6),
        (TRAINER.format(n=8, more="$MORE"), SCRIPT.format(more=""), None),
        (TRAINER.format(n=8, more="--fsdp full_shard"), SCRIPT.format(more=""), 47.6 / 8),
        (TRAINER.format(n=1, more="--optim adamw_bnb_8bit"), SCRIPT.format(more=""), 29.75),
        (TRAINER.format(n=1, more=""), SCRIPT.format(more="\nmodel.model.requires_grad_(False)"), None),
        (
            TRAINER.format(n=1, more=""),
            SCRIPT.format(more="\nimport peft\nmodel = peft.get_peft_model(model, c)"),
            None,
        ),
        (TRAINER.format(n=1, more=""), SCRIPT.format(more="\nconfig = LoraConfig(r=16)"), None),
        (TRAINER.format(n=1, more=""), SCRIPT.format(more="\nmodel.add_adapter(config)"), None),
        (TRAINER.format(n=1, more=""), SCRIPT.format(more="\nconfig = PrefixTuningConfig()"), None),
        (TRAINER.format(n=1, more=""), SCRIPT.format(more="\nSFTTrainer(model, peft_config=get_peft_config(m))"), None),
        (TRAINER.format(n=1, more=""), SCRIPT.format(more="\nmodel = AutoModel.from_config(c)"), None),
        (TRAINER.format(n=1, more="--optim adalomo"), SCRIPT.format(more=""), 11.9),
        (TRAINER.format(n=1, more="--optim galore_adamw_layerwise"), SCRIPT.format(more=""), 11.9),
        (TRAINER.format(n=1, more="--do_eval"), SCRIPT.format(more=""), None),
        (TRAINER.format(n=1, more="--do_train False"), SCRIPT.format(more=""), None),
        (TRAINER.format(n=1, more="--do_train --do_eval"), SCRIPT.format(more=""), 47.6),
        (TRAINER.format(n=1, more=""), SCRIPT.format(more="\nif args.do_train: pass"), None),
        (TRAINER.format(n=1, more="--use_cpu True"), SCRIPT.format(more=""), None),
        (f"CUDA_VISIBLE_DEVICES=0 {TRAINER.format(n=1, more='')}", SCRIPT.format(more=""), 47.6),
        (f"CUDA_VISIBLE_DEVICES= {TRAINER.format(n=1, more='')}", SCRIPT.format(more=""), None),
        (TRAINER.format(n=8, more="--tensor_model_parallel_size 4"), SCRIPT.format(more=""), None),
        (TRAINER.format(n=8, more="--my_tp_degree 2"), SCRIPT.format(more=""), None),
        (TRAINER.format(n=8, more="--tensor_parallelism 2"), SCRIPT.format(more=""), None),
        (f"TOKENIZERS_PARALLELISM=true {TRAINER.format(n=8, more='')}", SCRIPT.format(more=""), 47.6),
        (TRAINER.format(n=1, more="--optim $OPTIM"), SCRIPT.format(more=""), 11.9),
        (TRAINER.format(n=8, more="--config_overrides n_layer=2"), SCRIPT.format(more=""), None),
    ],
)
def test_the_trainer(tmp_path: Path, command: str, script: str, billions: float | None) -> None:
    fires, found = least(tmp_path, run_sh=command, train_py=script)
    assert found == (billions and pytest.approx(billions))
    assert fires is (billions is not None and billions > 42.3)


def test_an_evaluation_or_a_prediction_is_no_training(tmp_path: Path) -> None:
    for text in (
        LLAMAFACTORY.replace("do_train: true", "do_train: false"),
        LLAMAFACTORY.replace("do_train", "do_predict"),
    ):
        assert least(tmp_path, a_yaml=text, run_sh="llamafactory-cli train a.yaml\n") == (False, None)


@pytest.mark.parametrize("command", ["USE_MCA=1 {}", "{} use_ray=true", "{} use_kt=true", "export USE_MCA=1\n{}"])
def test_other_ways_of_llamafactory_to_spread_a_model(tmp_path: Path, command: str) -> None:
    assert of_llamafactory(tmp_path, command=command.format("llamafactory-cli train a.yaml")) == (False, None)


def test_a_config_of_deepspeed_that_spreads_layers(tmp_path: Path) -> None:
    text = json.dumps({"tensor_parallel": {"autotp_size": 2}, "zero_optimization": {"stage": 1}})
    assert of_llamafactory(tmp_path, "deepspeed: z.json\n", z_json=text) == (False, None)


@pytest.mark.parametrize(
    "command",
    [
        "",
        "axolotl train a.yml\n",
        "axolotl inference a.yml\n",
        "python -m axolotl.cli.inference a.yml\n",
        "python -m axolotl.cli.preprocess a.yml\n",
    ],
)
def test_a_config_of_axolotl_whose_command_may_say_more(tmp_path: Path, command: str) -> None:
    """`axolotl train` starts accelerate, whose config in the user's home may shard."""
    assert least(tmp_path, a_yml=AXOLOTL, run_sh=command) == (False, None)


def test_accelerate_may_be_told_to_run_megatron(tmp_path: Path) -> None:
    command = "accelerate launch --config_file mega.yaml -m axolotl.cli.train a.yml\n"
    mega = "distributed_type: MEGATRON_LM\nnum_processes: 2\nmixed_precision: bf16\n"
    assert least(tmp_path, a_yml=AXOLOTL, run_sh=command, mega_yaml=mega) == (False, None)


def test_torchtitan_may_update_in_backward_or_spread_layers(tmp_path: Path) -> None:
    command = "torchrun --nproc_per_node 2 -m torchtitan.train --job.config_file a.toml\n"
    early = TORCHTITAN.replace('name = "AdamW"', 'name = "AdamW"\nearly_step_in_backward = true')
    assert least(tmp_path, a_toml=early, run_sh=command) == (False, pytest.approx(0.85 * 8 * 12 / 2))
    for degree, found in (("1", (True, pytest.approx(0.85 * 8 * 16 / 2))), ("2", (False, None))):
        text = f"{TORCHTITAN}[parallelism]\npipeline_parallel_degree = {degree}\ndata_parallel_shard_degree = -1\n"
        assert least(tmp_path, a_toml=text, run_sh=command) == found


def test_a_recipe_of_torchtune_on_the_cpu(tmp_path: Path) -> None:
    command = "tune run full_finetune_single_device --config a.yaml {}\n"
    assert least(tmp_path, a_yaml=TORCHTUNE, run_sh=command.format("device=cuda"))[0] is True
    assert least(tmp_path, a_yaml=TORCHTUNE, run_sh=command.format("device=cpu")) == (False, None)


def test_a_script_that_is_not_there_may_do_anything(tmp_path: Path) -> None:
    command = (
        "torchrun --nproc_per_node 1 run_clm.py --model_name_or_path huggyllama/llama-7b --do_train --output_dir o\n"
    )
    assert least(tmp_path, run_sh=command) == (False, None)
