from __future__ import annotations

from collections.abc import Mapping

import pytest
from hypothesis import given
from hypothesis import strategies as st

from autotune import catalogue
from autotune.catalogue.coercion import typed
from autotune.catalogue.dialects import dialects, readings
from autotune.model.evidence import RUN, Location, Setting, Span, Value
from autotune.model.scanned import ConsumerCall, WrittenValue
from autotune.scan.settings import settings_of

UNKNOWN = object()
"""The value of an argument that cannot be followed."""


def call(
    dialect: str,
    name: str = "",
    *,
    subject: str = RUN,
    is_open: bool = False,
    file: str = "train.py",
    line: int = 10,
    **arguments: object,
) -> ConsumerCall:
    """Arguments with "__" for a dot, each on a line of its own below the call."""
    keys = [key.replace("__", ".") for key in arguments]
    values = dict(zip(keys, arguments.values(), strict=True))
    found = {key: argument(key, value, file, line + at + 1) for at, (key, value) in enumerate(values.items())}
    return ConsumerCall(dialect, name, subject, found, Location(file, line, name, end_line=line + len(found)), is_open)


def argument(key: str, value: object, file: str = "train.py", line: int = 1) -> WrittenValue:
    location = Location(file, line, key=key, span=Span(line, line + 1))
    if value is UNKNOWN:
        return WrittenValue(key, None, location, known=False)
    assert value is None or isinstance(value, bool | int | float | str)
    return WrittenValue(key, value, location)


def read(*calls: ConsumerCall, versions: Mapping[str, tuple[int, ...]] | None = None) -> dict[tuple[str, str], Setting]:
    return {(one.name, one.subject): one for one in settings_of(calls, versions or {})}


def value_of(name: str, *calls: ConsumerCall, **versions: tuple[int, ...]) -> Value | None:
    """The value of a setting, whichever subject it has."""
    found = [one.value for (own, _), one in read(*calls, versions=versions).items() if own == name]
    assert len(found) <= 1
    return found[0] if found else None


def origin_of(name: str, *calls: ConsumerCall, **versions: tuple[int, ...]) -> str | None:
    found = [one.origin for (own, _), one in read(*calls, versions=versions).items() if own == name]
    return found[0] if found else None


def test_a_given_value_has_its_place_and_spelling() -> None:
    found = read(call("hf_trainer", "TrainingArguments", dataloader_num_workers=4))
    setting = found["loader.num_workers", "loader#train"]
    assert (setting.value, setting.origin, setting.spelling) == (4, "static", "dataloader_num_workers")
    assert setting.location == Location("train.py", 11, key="dataloader_num_workers", span=Span(11, 12))
    assert setting.feeds == Location("train.py", 10, "TrainingArguments", end_line=11)


def test_a_config_feeds_no_call() -> None:
    setting = read(call("hf_trainer", "", dataloader_num_workers=4))["loader.num_workers", "loader#train"]
    assert setting.feeds is None


def test_a_default_stands_at_the_call() -> None:
    setting = read(call("hf_trainer", "TrainingArguments"))["loader.num_workers", "loader#train"]
    assert (setting.value, setting.origin) == (0, "default")
    assert setting.location == setting.feeds == Location("train.py", 10, "TrainingArguments", end_line=10)


def test_a_value_that_stands_elsewhere_feeds_the_call() -> None:
    made = call("torch", "DataLoader", subject="loader#train")
    far = argument("num_workers", 2, line=40)
    setting = read(ConsumerCall(**{**fields(made), "arguments": {"num_workers": far}}))[
        "loader.num_workers", "loader#train"
    ]
    assert setting.location == far.location
    assert setting.feeds == made.location


def fields(made: ConsumerCall) -> dict[str, object]:
    return {name: getattr(made, name) for name in ("dialect", "name", "subject", "arguments", "location", "is_open")}


def test_an_open_call_has_no_defaults() -> None:
    found = read(call("hf_trainer", "TrainingArguments", is_open=True, bf16=True))
    assert [(name, one.value) for (name, _), one in found.items()] == [("train.precision", "bf16-mixed")]


def also_keys() -> list[tuple[str, str, str]]:
    """Dialect, setting and a second key of each reading that has a default for its first."""
    return [
        (name, reading.setting, key)
        for name in dialects()
        for reading in readings(name, {})
        for key in reading.keys[1:]
        if reading.is_config and reading.keys[0] in reading.default
    ]


@pytest.mark.parametrize(("dialect", "name", "key"), also_keys())
def test_a_value_under_a_second_key_wins_over_the_default_of_the_first(dialect: str, name: str, key: str) -> None:
    (default,) = {one.default[one.keys[0]] for one in readings(dialect, {}) if key in one.keys and one.default}
    given = not default if isinstance(default, bool) else int(default) + 1
    (setting,) = [one for (own, _), one in read(call(dialect, **{key: given})).items() if own == name]
    assert (setting.value, setting.origin, setting.spelling) == (given, "static", key)


def test_every_loader_has_its_own_settings() -> None:
    train = call("torch", "DataLoader", subject="loader#train", num_workers=4)
    other = call("torch", "DataLoader", subject="loader#eval", batch_size=64)
    found = read(train, other)
    assert found["loader.num_workers", "loader#train"].value == 4
    assert found["loader.num_workers", "loader#eval"].value == 0
    assert found["loader.batch_size", "loader#eval"].value == 64


def test_the_command_wins_over_the_config_and_what_is_given_over_every_default() -> None:
    command = call("trl", file="run.sh", per_device_train_batch_size=2)
    config = call("trl", file="a.yaml", per_device_train_batch_size=8, dataloader_num_workers=4)
    found = read(command, config)
    assert found["loader.batch_size", "loader#train"].value == 2
    assert found["loader.num_workers", "loader#train"].value == 4
    assert found["loader.pin_memory", "loader#train"].location == command.location


def test_keys_of_one_consumer_count_together_wherever_they_are_given() -> None:
    command = call("hf_trainer", file="run.sh", save_strategy="epoch")
    config = call("hf_trainer", file="a.json", save_steps=100)
    assert value_of("checkpoint.interval_steps", command, config) is None
    assert value_of("checkpoint.interval_steps", config) == 100


def test_what_cannot_be_followed_is_no_setting_and_nothing_speaks_for_it() -> None:
    unknown = call("hf_trainer", "TrainingArguments", dataloader_num_workers=UNKNOWN)
    later = call("hf_trainer", file="a.json", dataloader_num_workers=4)
    assert value_of("loader.num_workers", unknown) is None
    assert value_of("loader.num_workers", unknown, later) is None


@pytest.mark.parametrize(
    ("dialect", "key", "written", "value"),
    [
        ("llmfoundry", "eval_interval", "500ba", 500),
        ("llmfoundry", "eval_interval", 1, None),
        ("llmfoundry", "eval_interval", "1ep", None),
        ("lightning_cli", "trainer.val_check_interval", 500, 500),
        ("lightning_cli", "trainer.val_check_interval", "500", 500),
        ("lightning_cli", "trainer.val_check_interval", 1.0, None),
        ("lightning_cli", "trainer.val_check_interval", 0.25, None),
        ("nemo", "trainer.val_check_interval", 1.0, None),
        ("olmo", "eval_interval", 1000, 1000),
    ],
)
def test_a_number_in_another_unit_counts_no_steps(dialect: str, key: str, written: object, value: int | None) -> None:
    assert value_of("evaluation.interval_steps", call(dialect, **{key.replace(".", "__"): written})) == value


@pytest.mark.parametrize(("always", "value"), [(True, 5), (False, None)])
def test_nanogpt_saves_at_each_evaluation_only_when_told_to(always: bool, value: int | None) -> None:
    made = call("nanogpt", eval_interval=5, always_save_checkpoint=always)
    assert value_of("checkpoint.interval_steps", made) == value
    assert value_of("evaluation.interval_steps", made) == 5


@pytest.mark.parametrize(
    "made",
    [
        call("axolotl", sample_packing=False, rl="dpo"),
        call("axolotl", sample_packing=False, reward_model=True),
        call("axolotl", sample_packing=False, processor_type="AutoProcessor"),
        call("llamafactory", stage="dpo"),
        call("llamafactory", stage="sft", image_max_pixels=262144),
        call("swift", rlhf_type="dpo"),
        call("swift", max_pixels=1003520),
        call("torchtune", loss___component_="torchtune.rlhf.loss.DPOLoss"),
        call("torchtune", dataset___component_="torchtune.datasets.stack_exchange_paired_dataset"),
        call("torchtune", model___component_="torchtune.models.llama3_2_vision.llama3_2_vision_11b"),
        call("trl", "DPOConfig"),
        call("trl", "SFTConfig", dataset_kwargs__skip_prepare_dataset=True),
    ],
)
def test_packing_is_nothing_to_preferences_and_images(made: ConsumerCall) -> None:
    assert value_of("data.packing", made) is None


def test_packing_is_off_in_plain_fine_tuning() -> None:
    made = [call("axolotl", sample_packing=False), call("llamafactory", stage="sft"), call("torchtune", batch_size=2)]
    assert {value_of("data.packing", one) for one in [*made, call("trl", "SFTConfig")]} == {False}


@pytest.mark.parametrize("written", ["auto", None, "many", 1.5, True, "${x}"])
def test_what_is_no_number_is_no_number_of_workers(written: object) -> None:
    assert value_of("loader.num_workers", call("hf_trainer", dataloader_num_workers=written)) is None


@pytest.mark.parametrize(
    ("name", "key", "written", "value"),
    [
        ("train.learning_rate", "learning_rate", "3e-4", 3e-4),
        ("train.learning_rate", "learning_rate", 1, 1.0),
        ("loader.batch_size", "per_device_train_batch_size", "16", 16),
        ("loader.batch_size", "per_device_train_batch_size", 16.0, 16),
        ("loader.pin_memory", "dataloader_pin_memory", "False", False),
        ("checkpoint.strategy", "save_strategy", False, "no"),
        ("train.max_steps", "max_steps", -1, None),
        ("train.max_steps", "max_steps", 100, 100),
        ("checkpoint.interval_steps", "save_steps", 0.1, None),
        ("checkpoint.interval_steps", "save_steps", 1e300, None),
        ("checkpoint.total_limit", "save_total_limit", None, None),
    ],
)
def test_values_are_what_the_consumer_makes_of_them(name: str, key: str, written: object, value: object) -> None:
    found = value_of(name, call("hf_trainer", "TrainingArguments", **{key: written}))
    assert found == value
    assert type(found) is type(value)


@pytest.mark.parametrize(
    ("dialect", "versions", "arguments", "value"),
    [
        ("hf_trainer", {}, {"bf16": True}, "bf16-mixed"),
        ("hf_trainer", {}, {"bf16": False, "fp16": True}, "fp16-mixed"),
        ("hf_trainer", {}, {"bf16": True, "fp16": UNKNOWN}, None),
        ("hf_trainer", {}, {"bf16": UNKNOWN}, None),
        ("hf_trainer", {}, {}, None),
        ("hf_trainer", {}, {"bf16": True, "torch_dtype": "bfloat16"}, "bf16"),
        ("hf_trainer", {}, {"bf16": False, "torch_dtype": "float32"}, "fp32"),
        ("hf_trainer", {"transformers": (4, 46)}, {}, "fp32"),
        ("trl", {}, {}, None),
        ("trl", {"trl": (0, 19)}, {}, "bf16-mixed"),
        ("trl", {"trl": (1, 16)}, {"fp16": True}, "fp16-mixed"),
        ("trl", {"trl": (1, 16)}, {"bf16": False, "dtype": "float32"}, "fp32"),
        ("trl", {"trl": (1, 16)}, {"bf16": UNKNOWN}, None),
        ("axolotl", {}, {"bf16": "auto"}, None),
        ("axolotl", {}, {"bf16": "full"}, "bf16"),
        ("lightning_cli", {}, {"trainer__precision": 16}, "fp16-mixed"),
        ("lightning_cli", {}, {"trainer__precision": "64-true"}, None),
        ("timm", {}, {"amp": True}, "fp16-mixed"),
        ("timm", {}, {"amp": True, "amp_dtype": "bfloat16"}, "bf16-mixed"),
        ("timm", {}, {}, "fp32"),
        ("deepspeed", {}, {"bf16__enabled": "auto", "fp16__enabled": "auto"}, None),
        ("deepspeed", {}, {"fp16__enabled": True}, "fp16"),
    ],
)
def test_precision(dialect: str, versions: dict[str, tuple[int, ...]], arguments: dict[str, object], value) -> None:
    assert value_of("train.precision", call(dialect, **arguments), **versions) == value


@pytest.mark.parametrize(
    ("arguments", "strategy", "interval"),
    [
        ({}, "no", None),
        ({"eval_strategy": "steps"}, "steps", 500),
        ({"eval_strategy": "steps", "logging_steps": 10}, "steps", 10),
        ({"eval_strategy": "steps", "logging_steps": 10, "logging_strategy": "epoch"}, "steps", 10),
        ({"eval_strategy": "steps", "logging_steps": UNKNOWN, "logging_strategy": "no"}, "steps", None),
        ({"eval_strategy": "steps", "logging_strategy": "epoch"}, "steps", None),
        ({"evaluation_strategy": "steps", "eval_steps": 50}, "steps", 50),
        ({"eval_strategy": "epoch", "eval_steps": 50}, "epoch", None),
        ({"eval_strategy": "steps", "eval_steps": UNKNOWN}, "steps", None),
        ({"eval_strategy": UNKNOWN, "eval_steps": 50}, None, None),
    ],
)
def test_evaluation_of_the_trainer(arguments: dict[str, object], strategy: str | None, interval: int | None) -> None:
    made = call("hf_trainer", "TrainingArguments", **arguments)
    assert value_of("evaluation.strategy", made) == strategy
    assert value_of("evaluation.interval_steps", made) == interval


@pytest.mark.parametrize("dialect", ["hf_trainer", "trl"])
@pytest.mark.parametrize(("strategy", "interval"), [("steps", 1), ("epoch", None), ("no", None)])
def test_logging_steps_count_where_steps_are_logged(dialect: str, strategy: str, interval: int | None) -> None:
    made = call(dialect, "", logging_steps=1, logging_strategy=strategy)
    assert value_of("logging.interval_steps", made) == interval
    assert value_of("logging.interval_steps", call(dialect, "", logging_steps=1)) == 1


def test_packing_says_nothing_where_nothing_is_padded() -> None:
    assert value_of("data.packing", call("trl", "SFTConfig", padding_free=False)) is False
    assert value_of("data.packing", call("trl", "SFTConfig", padding_free=True)) is None


def test_evaluation_of_an_open_call_may_be_told_its_steps_elsewhere() -> None:
    made = call("hf_trainer", "TrainingArguments", is_open=True, eval_strategy="steps", logging_steps=10)
    assert value_of("evaluation.interval_steps", made) is None


@pytest.mark.parametrize(
    ("arguments", "versions", "value", "origin"),
    [
        ({"gradient_checkpointing": True}, {}, True, "static"),
        ({"activation_checkpointing": True}, {"transformers": (5, 23)}, True, "static"),
        ({}, {}, False, "default"),
    ],
)
def test_activation_checkpointing_of_the_trainer(arguments, versions, value, origin) -> None:
    made = call("hf_trainer", "TrainingArguments", **arguments)
    assert value_of("train.activation_checkpointing", made, **versions) is value
    assert origin_of("train.activation_checkpointing", made, **versions) == origin


@pytest.mark.parametrize(("version", "value"), [(None, None), ((0, 21), False), ((0, 22), True)])
def test_activation_checkpointing_of_trl_depends_on_the_release(version, value) -> None:
    versions = {"trl": version} if version else {}
    assert value_of("train.activation_checkpointing", call("trl", "SFTConfig"), **versions) is value


def test_llama_factory_recomputes_unless_told_otherwise() -> None:
    name = "train.activation_checkpointing"
    assert value_of(name, call("llamafactory", stage="sft")) is True
    assert value_of(name, call("llamafactory", disable_gradient_checkpointing=True)) is False


@pytest.mark.parametrize(
    ("arguments", "value"),
    [({"stage": "sft"}, False), ({"stage": "pt"}, None), ({"stage": "sft", "packing": True}, True)],
)
def test_llama_factory_packs_when_pretraining(arguments, value) -> None:
    assert value_of("data.packing", call("llamafactory", **arguments)) is value


@pytest.mark.parametrize(
    ("made", "value"),
    [
        (call("llamafactory", stage="sft"), None),
        (call("llamafactory", use_reentrant_gc=True), True),
        (call("llamafactory", use_reentrant_gc=True, disable_gradient_checkpointing=True), None),
        (call("axolotl", gradient_checkpointing=True, gradient_checkpointing_kwargs__use_reentrant=False), False),
        (call("hf_trainer", gradient_checkpointing=True, gradient_checkpointing_kwargs__use_reentrant=True), True),
        (call("hf_trainer", gradient_checkpointing_kwargs__use_reentrant=True), None),
        (call("trl", gradient_checkpointing_kwargs__use_reentrant=True), None),
    ],
)
def test_how_activations_are_recomputed_counts_only_where_they_are(made: ConsumerCall, value: bool | None) -> None:
    assert value_of("train.checkpoint_use_reentrant", made) is value


def test_a_default_of_one_of_trl_s_configs_is_not_that_of_a_config_file() -> None:
    assert value_of("data.packing", call("trl", "SFTConfig")) is False
    assert value_of("data.packing", call("trl", "GRPOConfig")) is None
    assert value_of("data.packing", call("trl")) is None


@pytest.mark.parametrize(
    ("written", "fused"), [("adamw_torch_fused", True), ("adamw_torch", False), ("paged_adamw_8bit", None)]
)
def test_the_optimizer_by_name(written: str, fused: bool | None) -> None:
    made = call("hf_trainer", "TrainingArguments", optim=written)
    assert value_of("optimizer.fused", made) is fused
    assert value_of("optimizer.name", made) == written


def test_optimizers_of_torch() -> None:
    made = call("torch", "torch.optim.AdamW", subject="optimizer#1", fused=True, lr=1e-3)
    assert read(made)["optimizer.fused", "optimizer#1"].value is True
    assert value_of("train.learning_rate", made) == 1e-3


@pytest.mark.parametrize(
    ("made", "name", "value"),
    [
        (call("torch", "torch.set_float32_matmul_precision", precision="high"), "train.matmul_precision", "high"),
        (call("torch", "torch.autograd.set_detect_anomaly", mode=True), "train.anomaly_detection", True),
        (call("torch", "torch.set_num_threads", int=4), "train.num_threads", 4),
        (call("torch", "torch.backends.cuda.matmul.allow_tf32", value=True), "train.matmul_precision", "high"),
        (call("torch", "torch.backends.cuda.matmul.allow_tf32", value=UNKNOWN), "train.matmul_precision", None),
        (call("torch", "torch.compile", mode="max-autotune"), "train.compile_mode", "max-autotune"),
        (call("torch", "torch.compile"), "train.compile", True),
        (call("torch", "torch.autocast", dtype="torch.bfloat16"), "train.precision", "bf16-mixed"),
        (call("torch", "torch.autocast", device_type="cuda"), "train.precision", None),
        (call("torch", "torch.autocast", dtype="torch.float16", enabled=UNKNOWN), "train.precision", None),
        (call("torch", "torch.cuda.amp.autocast"), "train.precision", "fp16-mixed"),
        (call("torch", "torch.cuda.amp.autocast", enabled=False), "train.precision", None),
        (call("torch", "from_pretrained", device_map="auto"), "model.device_map", "auto"),
        (call("torch", "from_pretrained", attn_implementation="eager"), "model.attention", "eager"),
        (call("torch", "config of a model", attn_implementation="eager"), "model.attention", "eager"),
        (call("torch", "BitsAndBytesConfig", load_in_4bit=True), "model.bnb_4bit_compute_dtype", "float32"),
        (call("torch", "DistributedDataParallel", find_unused_parameters=True), "ddp.find_unused_parameters", True),
        (call("accelerate", "Accelerator", gradient_accumulation_steps=4), "train.accumulation_steps", 4),
        (call("accelerate", "DistributedDataParallelKwargs", static_graph=True), "ddp.static_graph", True),
        (
            call("accelerate", "DataLoaderConfiguration", gradient_accumulation_steps=4),
            "train.accumulation_steps",
            None,
        ),
        (call("lightning", "Trainer", accumulate_grad_batches=4), "train.accumulation_steps", 4),
        (call("lightning", "ModelCheckpoint"), "checkpoint.total_limit", 1),
        (call("hf_trainer", "Trainer", max_steps=4), "train.max_steps", None),
        (call("accelerate_config", mixed_precision="bf16"), "train.precision", "bf16-mixed"),
        (call("accelerate_config", dynamo_config__dynamo_backend="INDUCTOR"), "train.compile", True),
        (call("accelerate_config", dynamo_backend="no"), "train.compile", False),
    ],
)
def test_calls(made: ConsumerCall, name: str, value: object) -> None:
    assert value_of(name, made) == value


def test_the_dtype_of_a_loaded_model_is_its_precision() -> None:
    arguments = call("hf_trainer", "TrainingArguments", bf16=True)
    assert value_of("train.precision", arguments, call("torch", "from_pretrained", dtype="torch.bfloat16")) == "bf16"
    two = [call("torch", "from_pretrained", dtype=dtype) for dtype in ("torch.bfloat16", "torch.float32")]
    assert value_of("train.precision", arguments, *two) == "bf16-mixed"
    plain = call("torch", "from_pretrained")
    old = {"transformers": (4, 46)}
    assert value_of("train.precision", call("hf_trainer", bf16=False, fp16=False), plain) is None
    assert value_of("train.precision", call("hf_trainer", bf16=False, fp16=False), plain, **old) == "fp32"


@pytest.mark.parametrize(
    ("devices", "nodes", "value"), [(1, 1, 8), (2, 2, 2), (16, 1, 1), ("auto", 1, None), (UNKNOWN, 1, None)]
)
def test_accumulation_is_worked_out_where_the_processes_are_known(devices, nodes, value) -> None:
    made = call("litgpt", train__global_batch_size=8, train__micro_batch_size=1, devices=devices, num_nodes=nodes)
    assert value_of("train.accumulation_steps", made) == value
    assert value_of("train.global_batch", made) == 8


def test_accumulation_that_is_told_is_not_worked_out() -> None:
    made = call("deepspeed", train_batch_size=64, train_micro_batch_size_per_gpu=4, gradient_accumulation_steps=2)
    assert value_of("train.accumulation_steps", made, call("accelerate_config", num_processes=2)) == 2


def test_zero() -> None:
    made = call("deepspeed", zero_optimization__stage=3, zero_optimization__offload_param__device="cpu")
    assert value_of("zero.stage", made) == 3
    assert value_of("zero.offload_param", made) == "cpu"
    assert value_of("zero.offload_optimizer", made) == "none"


def test_an_unknown_dialect_says_nothing() -> None:
    assert settings_of([call("of another day", a=1)], {}) == ()
    assert settings_of([], {}) == ()


NAMED = [(name, key) for name in dialects() for one in readings(name, {}) for key in one.keys]
VALUES = st.none() | st.booleans() | st.integers() | st.floats() | st.text() | st.sampled_from(["auto", "no", "bf16"])


@given(st.lists(st.tuples(st.sampled_from(NAMED), VALUES, st.booleans())), st.booleans())
def test_values_are_of_the_type_of_their_setting_whatever_is_written(rows, is_open: bool) -> None:
    calls = [call(name, is_open=is_open, **{key: value if known else UNKNOWN}) for (name, key), value, known in rows]
    kinds = {"bool": bool, "int": int, "float": float, "text": str}
    for setting in settings_of(calls, {}):
        assert type(setting.value) is kinds[catalogue.kinds()[setting.name]]
        assert setting.origin in ("static", "default")


@pytest.mark.parametrize("name", [name for name, rows in dialects().items() if "syntaxes" in rows])
def test_what_a_dialect_writes_is_read_back(name: str) -> None:
    versions = {"transformers": (4, 50)}
    for reading in readings(name, versions):
        spelling = catalogue.spelling(dialects()[name]["frameworks"][0], reading.setting, versions)
        if spelling is None or spelling.key not in reading.keys or not reading.is_config or reading.only:
            continue
        for text in {*reading.values, *map(str, reading.means.values())}:
            value = typed(text, catalogue.kinds()[reading.setting])
            assert value is not None
            assert spelling.takes(value)
            given = {key: argument(key, one) for key, one in spelling.arguments(value).items()}
            made = ConsumerCall(name, spelling.call, RUN, given, Location("a.yaml", 1))
            found = {one.name: one.value for one in settings_of([made], versions)}
            assert found[reading.setting] == value
