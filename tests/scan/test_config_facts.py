from __future__ import annotations

from collections.abc import Sequence

import pytest
from msgspec.structs import replace

from autotune.model.evidence import RUN, Location, Value
from autotune.model.scanned import ConsumerCall, WrittenValue
from autotune.scan import config_facts
from autotune.scan.launch import Launch, launches
from autotune.scan.settings import settings_of
from autotune.syntax import shell


def call(dialect: str, name: str = "", *, is_open: bool = False, **arguments: Value | None) -> ConsumerCall:
    keys = {key.replace("__", "."): value for key, value in arguments.items()}
    found = {
        key: WrittenValue(key, value, Location("a.yaml", at + 2, key=key))
        for at, (key, value) in enumerate(keys.items())
    }
    return ConsumerCall(dialect, name, RUN, found, Location("a.yaml", 1), is_open)


def started(text: str) -> tuple[Launch, ...]:
    return launches(shell.read(text.encode(), "run.sh"), "run.sh")


def facts(*calls: ConsumerCall, commands: Sequence[Launch] = ()) -> dict[str, Value]:
    found = {
        fact.name.removeprefix("config."): fact for fact in config_facts.facts(calls, settings_of(calls, {}), commands)
    }
    assert all(fact.subject == RUN and fact.places for fact in found.values())
    return {name: fact.value for name, fact in found.items()}


STEPS = {"eval_strategy": "steps"}


@pytest.mark.parametrize(
    ("made", "value"),
    [
        (call("hf_trainer", **STEPS), True),
        (call("trl", **STEPS, logging_steps=10), True),
        (call("hf_trainer", **STEPS, eval_steps=100), False),
        (call("hf_trainer", **STEPS, is_open=True), None),
        (call("hf_trainer"), None),
        (call("axolotl", **STEPS, logging_steps=1), None),
    ],
)
def test_evaluation_follows_logging(made: ConsumerCall, value: bool | None) -> None:
    assert facts(made).get("eval_follows_logging") is value


@pytest.mark.parametrize(
    ("made", "value"),
    [
        (call("hf_trainer", save_total_limit=2), True),
        (call("hf_trainer", save_strategy="no"), True),
        (call("hf_trainer"), False),
        (call("hf_trainer", save_total_limit=None), None),
        (call("hf_trainer", is_open=True), None),
        (call("lightning", "ModelCheckpoint"), True),
        (call("lightning", "ModelCheckpoint", save_top_k=-1), None),
        (call("litgpt", train__save_interval=10), None),
    ],
)
def test_checkpoints_are_limited(made: ConsumerCall, value: bool | None) -> None:
    assert facts(made).get("limits_checkpoints") is value


@pytest.mark.parametrize(
    ("made", "fsdp", "legacy"),
    [
        (call("hf_trainer", fsdp="full_shard auto_wrap"), True, True),
        (call("hf_trainer", fsdp=True), True, None),
        (call("hf_trainer", fsdp=True, fsdp_config__version=2), True, False),
        (call("hf_trainer", fsdp=""), None, None),
        (call("hf_trainer", fsdp="full_shard", fsdp_config__xla=True, fsdp_config__xla_fsdp_v2=True), None, None),
        (call("hf_trainer", fsdp="full_shard", fsdp_config__xla=False), True, True),
        (call("hf_trainer", fsdp="full_shard", fsdp_config="fsdp.json"), None, None),
        (call("hf_trainer"), None, None),
        (call("accelerate_config", distributed_type="FSDP", fsdp_config__fsdp_version=2), True, False),
        (call("accelerate_config", distributed_type="FSDP", fsdp_config__fsdp_version=1), True, True),
        (call("accelerate_config", distributed_type="MULTI_GPU"), None, None),
        (call("axolotl", fsdp_version=2, fsdp_config__offload_params=False), True, False),
        (call("lightning", "Trainer", strategy="fsdp"), True, True),
        (call("lightning", "Trainer", strategy="ddp"), None, None),
    ],
)
def test_fsdp(made: ConsumerCall, fsdp: bool | None, legacy: bool | None) -> None:
    found = facts(made)
    assert found.get("fsdp") is fsdp
    assert found.get("fsdp_is_legacy") is legacy


@pytest.mark.parametrize(
    ("made", "value"),
    [
        (call("deepspeed", zero_optimization__offload_optimizer__device="cpu"), "optimizer"),
        (
            call(
                "deepspeed",
                zero_optimization__offload_optimizer__device="nvme",
                zero_optimization__offload_param__device="cpu",
                zero_optimization__stage=3,
            ),
            "optimizer, parameters",
        ),
        (
            call(
                "deepspeed",
                zero_optimization__offload_optimizer__device="cpu",
                zero_optimization__offload_param__device="cpu",
                zero_optimization__stage=2,
            ),
            "optimizer",
        ),
        (call("deepspeed", zero_optimization__offload_optimizer__device="none"), None),
        (call("accelerate_config", fsdp_config__fsdp_offload_params=True), "parameters"),
        (call("axolotl", gradient_checkpointing="offload"), "activations"),
        (call("axolotl", gradient_checkpointing=True), None),
        (call("torchtune", enable_activation_offloading=True), "activations"),
        (call("lightning", "Trainer", strategy="deepspeed_stage_2_offload"), "optimizer"),
    ],
)
def test_what_is_kept_in_cpu_memory(made: ConsumerCall, value: str | None) -> None:
    assert facts(made).get("offloads_to_cpu") == value


def test_batches_that_a_config_states_and_that_the_others_give() -> None:
    zero = call("deepspeed", train_batch_size=256)
    trainer = call("hf_trainer", per_device_train_batch_size=8, gradient_accumulation_steps=4)
    found = facts(trainer, zero, commands=started("torchrun --nproc_per_node 4 train.py"))
    assert (found["stated_global_batch"], found["computed_global_batch"]) == (256, 128)
    assert found["accumulation_on_one_process"] == 32


@pytest.mark.parametrize(
    "command",
    ["python train.py", "torchrun --nproc_per_node $N train.py", "torchrun a.py; torchrun --nproc_per_node 2 a.py"],
)
def test_without_a_known_number_of_processes_nothing_is_computed(command: str) -> None:
    trainer = call("hf_trainer", per_device_train_batch_size=8, gradient_accumulation_steps=4)
    assert "computed_global_batch" not in facts(trainer, commands=started(command))


def test_what_is_worked_out_from_the_global_batch_says_nothing_about_it() -> None:
    made = call("litgpt", train__global_batch_size=10, train__micro_batch_size=4, devices=1)
    found = facts(made)
    assert (found["stated_global_batch"], found["accumulation_on_one_process"]) == (10, 2)
    assert "computed_global_batch" not in found


@pytest.mark.parametrize(
    ("made", "value"),
    [
        (call("axolotl", adapter="qlora"), True),
        (call("llamafactory", finetuning_type="lora"), True),
        (call("llamafactory", finetuning_type="full"), None),
        (call("trl", use_peft=True), True),
        (call("trl", use_peft=False, lora_r=8), None),
        (call("torchtune", model___component_="torchtune.models.llama3_2.lora_llama3_2_1b"), True),
        (call("litgpt", lora_r=8), True),
        (call("torch", "LoraConfig", r=8), True),
        (call("hf_trainer"), None),
    ],
)
def test_only_an_adapter_is_trained(made: ConsumerCall, value: bool | None) -> None:
    assert facts(made).get("is_lora") is value


def test_a_default_makes_no_adapter() -> None:
    made = call("litgpt", lora_r=8)
    shared = replace(made, arguments={key: replace(one, is_default=True) for key, one in made.arguments.items()})
    assert facts(shared).get("is_lora") is None
    assert facts(shared, call("torch", "LoraConfig", r=8)).get("is_lora") is True


@pytest.mark.parametrize(
    ("name", "size"),
    [
        ("meta-llama/Llama-3.2-1B", 1.0),
        ("Qwen/Qwen2.5-0.5B-Instruct", 0.5),
        ("mistralai/Mixtral-8x7B-v0.1", 56.0),
        ("Qwen/Qwen3-30B-A3B", 30.0),
        ("EleutherAI/pythia-14m", 0.014),
        ("models/llama3_2_1b", 1.0),
        ("runs-of-7b/llama-2-13b/", 13.0),
        ("models/llama-2-7b/final", None),
        ("internlm/internlm2_5-7b-chat-1m", None),
        ("gpt2", None),
        ("bert-base-uncased", None),
        ("phi-3-mini-4k-instruct", None),
        ("v2b3", None),
    ],
)
def test_the_size_that_a_name_says(name: str, size: float | None) -> None:
    assert facts(call("axolotl", base_model=name)).get("model_size_b") == size
    assert facts(call("torch", "from_pretrained", pretrained_model_name_or_path=name)).get("model_size_b") == size


def test_the_size_that_layers_and_width_say() -> None:
    made = call("llmfoundry", model__n_layers=12, model__d_model=768)
    assert facts(made)["model_size_b"] == pytest.approx(0.085, abs=0.001)
    assert "model_size_b" not in facts(call("llmfoundry", model__n_layers=12))


@pytest.mark.parametrize(
    ("made", "command", "number"),
    [
        (call("hf_trainer"), "torchrun --nproc_per_node 4 train.py", 4),
        (call("accelerate_config", num_processes=2), "python train.py", 2),
        (call("hf_trainer"), "torchrun --nproc_per_node $N train.py", None),
    ],
)
def test_the_processes_that_train(made: ConsumerCall, command: str, number: int | None) -> None:
    assert facts(made, commands=started(command)).get("num_processes") == number


@pytest.mark.parametrize("name", [f"{'9' * 5000}x7b", f"a-{'9' * 400}b"])
def test_a_name_of_very_many_digits_says_no_size(name: str) -> None:
    assert "model_size_b" not in facts(call("axolotl", base_model=name))


@pytest.mark.parametrize(
    ("made", "value"),
    [
        (call("trl", "GRPOConfig", max_completion_length=1024), True),
        (call("trl", "GRPOConfig", use_vllm=False), True),
        (call("trl", "RLOOConfig", use_vllm=False), None),
        (call("trl", "GRPOConfig", use_vllm=True), None),
        (call("trl", "GRPOConfig", use_vllm=None), None),
        (call("trl", "GRPOConfig", use_vllm=False, use_transformers_paged=True), None),
        (call("trl", "GRPOConfig", is_open=True), None),
        (call("trl", "SFTConfig"), None),
    ],
)
def test_completions_that_the_trainer_samples_itself(made: ConsumerCall, value: bool | None) -> None:
    assert facts(made).get("samples_itself") is value


def test_a_notebook_may_not_start_vllm() -> None:
    made = call("trl", "GRPOConfig")
    assert "samples_itself" not in facts(replace(made, location=Location("a.ipynb", 1)))


@pytest.mark.parametrize(
    ("asked", "own", "expected"),
    [
        ("cosine", "WarmupLR", ("cosine", "WarmupLR")),
        ("linear", "WarmupLR", ("linear", "WarmupLR")),
        ("cosine", "WarmupDecayLR", ("cosine", "WarmupDecayLR")),
        ("constant_with_warmup", "WarmupLR", (None, None)),
        ("constant", "WarmupLR", (None, None)),
        ("linear", "WarmupDecayLR", (None, None)),
        ("cosine", "WarmupCosineLR", (None, None)),
        ("cosine", "OneCycle", (None, None)),  # another idea of a schedule: who writes it wants it
        ("cosine", None, (None, None)),
        (None, "WarmupLR", (None, None)),
    ],
)
def test_a_schedule_that_deepspeed_replaces(
    asked: Value | None, own: Value | None, expected: tuple[object, ...]
) -> None:
    trainer = call("hf_trainer", **({} if asked is None else {"lr_scheduler_type": asked}))
    engine = call("deepspeed", **({} if own is None else {"scheduler__type": own}))
    found = facts(trainer, engine)
    assert (found.get("ignored_schedule"), found.get("deepspeed_schedule")) == expected


def test_two_schedules_that_are_asked_for() -> None:
    asked = [call("hf_trainer", lr_scheduler_type=one) for one in ("cosine", "linear")]
    assert "ignored_schedule" not in facts(*asked, call("deepspeed", scheduler__type="WarmupLR"))


def test_a_schedule_that_is_not_certain() -> None:
    trainer = call("hf_trainer", lr_scheduler_type="cosine")
    given = replace(trainer.arguments["lr_scheduler_type"], known=False)
    trainer = replace(trainer, arguments={"lr_scheduler_type": given})
    assert "ignored_schedule" not in facts(trainer, call("deepspeed", scheduler__type="WarmupLR"))
