from __future__ import annotations

import pytest

from autotune import catalogue
from autotune.catalogue.dialects import dialects
from autotune.catalogue.vocabulary import read
from autotune.model.evidence import RUN, Location, Value
from autotune.model.scanned import ConsumerCall, WrittenValue
from autotune.scan import pattern_facts


def said(dialect: str, **arguments: Value) -> set[str]:
    keys = {key.replace("__", "."): value for key, value in arguments.items()}
    found = {key: WrittenValue(key, value, Location("a.yaml", 1, key=key)) for key, value in keys.items()}
    facts = list(pattern_facts.facts([ConsumerCall(dialect, "", RUN, found, Location("a.yaml", 1))]))
    assert all(fact.value is True and fact.places for fact in facts)
    return {fact.name.removeprefix("config.") for fact in facts}


@pytest.mark.parametrize(
    ("dialect", "arguments", "expected"),
    [
        ("hf_trainer", {"fp16": True, "bf16": True}, {"fp16_and_bf16"}),
        ("trl", {"fp16": "true", "bf16": "true"}, {"fp16_and_bf16"}),
        ("hf_trainer", {"fp16": True, "bf16": False}, set()),
        ("hf_trainer", {"bf16": True}, set()),
        ("deepspeed", {"fp16__enabled": True, "bf16__enabled": True}, {"fp16_and_bf16"}),
        ("deepspeed", {"fp16__enabled": True, "bf16__enabled": "auto"}, set()),
        ("lightning", {"fp16": True, "bf16": True}, set()),
        ("accelerate_config", {"fsdp_config__fsdp_backward_prefetch": "NO_PREFETCH"}, {"fsdp_prefetches_nothing"}),
        ("accelerate_config", {"fsdp_config__fsdp_backward_prefetch": "BACKWARD_PRE"}, set()),
        ("accelerate_config", {"fsdp_config__fsdp_sharding_strategy": "NO_SHARD"}, {"fsdp_shards_nothing"}),
        ("accelerate_config", {"fsdp_config__fsdp_sharding_strategy": "FULL_SHARD"}, set()),
        ("accelerate_config", {"fsdp_config__fsdp_auto_wrap_policy": "NO_WRAP"}, {"fsdp_wraps_nothing"}),
        ("accelerate_config", {"fsdp_config__fsdp_use_orig_params": False}, {"fsdp_flattens_parameters"}),
        ("accelerate_config", {"fsdp_config__fsdp_use_orig_params": True}, set()),
        ("axolotl", {"fsdp_config__fsdp_state_dict_type": "FULL_STATE_DICT"}, {"gathers_checkpoints"}),
        ("deepspeed", {"zero_optimization__overlap_comm": False}, {"reduces_after_backward"}),
        ("deepspeed", {"zero_optimization__overlap_comm": True}, set()),
        ("deepspeed", {"wall_clock_breakdown": True}, {"deepspeed_timers"}),
        ("deepspeed", {"wall_clock_breakdown": False}, set()),
        ("hf_trainer", {"include_num_input_tokens_seen": "no"}, set()),
        ("hf_trainer", {"include_num_input_tokens_seen": "all"}, {"counts_tokens"}),
        ("hf_trainer", {"skip_memory_metrics": False}, {"measures_memory"}),
        ("hf_trainer", {"accelerator_config__dispatch_batches": True}, {"dispatches_batches"}),
        ("accelerate", {"dispatch_batches": False}, set()),
        ("trl", {"auto_find_batch_size": True}, {"finds_batch_size"}),
        ("hf_trainer", {"load_best_model_at_end": True}, {"loads_best"}),
        ("lightning", {"reload_dataloaders_every_n_epochs": 2}, {"remakes_loaders"}),
        ("lightning", {"reload_dataloaders_every_n_epochs": 0}, set()),
        ("hf_trainer", {"use_cpu": True}, {"trains_on_cpu"}),
        ("trl", {"no_cuda": "true"}, {"trains_on_cpu"}),
        ("hf_trainer", {"use_cpu": False}, set()),
        ("accelerate", {"cpu": True}, {"trains_on_cpu"}),
        ("accelerate_config", {"use_cpu": True}, {"trains_on_cpu"}),
        ("lightning", {"accelerator": "cpu"}, {"trains_on_cpu"}),
        ("lightning", {"accelerator": "auto"}, set()),
        ("hf_trainer", {"ddp_backend": "nccl"}, set()),
        ("hf_trainer", {"ddp_backend": "gloo"}, {"distributes_by_gloo"}),
    ],
)
def test_what_is_stated(dialect: str, arguments: dict[str, Value], expected: set[str]) -> None:
    assert said(dialect, **arguments) == expected


def test_offload_needs_both_keys() -> None:
    on_cpu = {"zero_optimization__offload_optimizer__device": "cpu"}
    assert said("deepspeed", **on_cpu) == set()
    unpinned = {"zero_optimization__offload_optimizer__pin_memory": False}
    assert said("deepspeed", **unpinned) == set()
    assert said("deepspeed", **on_cpu, **unpinned) == {"offloads_unpinned"}


def test_the_table_states_the_facts_of_the_catalogue_in_known_dialects() -> None:
    table = read("stated.toml")
    assert set(table) == {name for name, entry in catalogue.facts().items() if entry.supplier == "scan.pattern_facts"}
    assert {dialect for row in table.values() for dialect in row} <= set(dialects())
