"""Facts config.least_memory_*: what each device holds at least, by the run's own model, whatever its batch is.

Weights, gradients and optimizer state, each counted with the fewest bytes that its settings allow. Activations, the
libraries' buffers and the device's context are left out: the sum can show that a step does not fit, never that it fits.
Nothing is said where a file of the run may do what no setting says: quantise, freeze, spread layers over devices.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence

from msgspec import Struct

from autotune.catalogue.coercion import WORDS, typed
from autotune.catalogue.dialects import about, extends
from autotune.model.evidence import RUN, Fact, Location, Setting, Value
from autotune.model.scanned import ConsumerCall, WrittenValue
from autotune.scan.configs import matching_arguments
from autotune.scan.framework_defaults import DTYPES
from autotune.scan.launch import Launch
from autotune.scan.model_size import named_size

OF_THE_NAME = 0.85
"""Share of the size in its name that a model has at least: btlm-3b has 2.65 billion parameters, 0.88 of it."""

OF_EXPERTS = 0.7
"""The same for 8x8B, whose experts share attention: Llama-3-8x8B has 47.5 billion parameters, 0.74 of 64."""

UNTOLD = re.compile(
    r"gptq|awq|aqlm|gguf|bnb|hqq|exl2|mxfp|nf4|fp8|gpt-oss|quant|\bint[48]\b|[248]-?bit|w[48]a\d|tiny|dummy|random|debug"
    r"|laion|eagle|medusa|tokens|draft|distill|speculator"
)
"""In a model's name: it is stored in fewer bits, or is not what its name says."""

NOT_BY_SETTINGS = re.compile(
    rb"requires_grad|freeze|quantiz|bitsandbytes|load_in_[48]bit|device_map|create_optimizer"
    rb"|optimizers\s*=|tensor_parallel|parallelize|empty_weights|torchao|post_accumulate_grad|from_config|num_hidden_layers"
    rb"|(?i:galore|lomo|peft|lora|adapter|prefix_?tuning|prompt_?tuning)"
)
"""In a Python file of the run: it may decide itself what is trained, how it is stored, or where it lies."""

SPREADS = re.compile(
    r"(?:^|[._])(?:tp|pp|cp|ep)(?:[._]|$)|parallel(?!ism\.)|megatron|autotp|dp_shard_size|use_(?:mca|ray|kt)$"
    r"|device_map|max_memory|gpu_memory_limit|overrides"
)
"""In a key: it spreads one copy of the model over devices in ways that are not followed, or changes its shape."""

FOLLOWED = re.compile(r"data_parallel|parallel_mode|tokenizers_parallelism")
"""In a key that SPREADS finds: it copies a model, shards it among all processes, or is not about models."""

SHARDING = ("NO", "MULTI_GPU", "FSDP", "DEEPSPEED")
"""Values of accelerate's `distributed_type` that are followed."""

ON_CPU = ("use_cpu", "no_cuda", "cpu")
"""Keys and flags that leave the GPUs alone."""

NO_TRAINING = re.compile(r"(?:^|[^a-z])(?:infer|preprocess|eval|merge|quantize|generate|chat|export|predict)")
"""In the name of what a command starts."""

IN_BACKWARD = ("optimizer_in_bwd", "early_step_in_backward")
"""Keys of torchtune and torchtitan for updates in backward, so that the gradients never exist at once."""

UPDATES_IN_BACKWARD = ("lomo", "layerwise")
"""In the name of an optimizer that does so."""

LESS_THAN_A_MOMENT = ("galore", "apollo", "lomo", "badam", "layerwise", "paged", "offload", "muon")
"""In an optimizer's name: its state is smaller than the weights, or may lie in CPU memory."""

SIXTEEN_BIT, FULL = 2.0, 4.0
"""Bytes of a number."""


class Held(Struct, frozen=True):
    """Bytes for each parameter that a device holds: `whole`, and `divided` among the processes; `of` names them."""

    whole: float
    divided: float
    of: tuple[str, ...]


def facts(
    calls: Sequence[ConsumerCall],
    settings: Mapping[str, Setting],
    launches: Sequence[Launch],
    told: Mapping[str, Value],
    python: Sequence[bytes],
) -> Iterator[Fact]:
    """The facts, where the files leave no doubt. `told` are the facts config.* by name, `python` the scripts' contents.

    Without a command nothing is said: it may shard, and start something else than a training.
    """
    call = next((one for one in calls if _is_of_model(one)), None)
    if call is None or any(map(NOT_BY_SETTINGS.search, python)):
        return
    size = _size(call)
    if size is None or _is_open(call, calls, launches) or _spreads(calls, launches):
        return
    if not _trains_on_gpu(call, calls, launches, python):
        return
    held = _held(call, calls, settings, launches, told)
    if held is None:
        return
    processes = _processes(launches, told)
    divided = held.divided / processes if processes else 0.0
    num_bytes = int(size[0] * 1e9 * (held.whole + divided))
    if num_bytes:
        places = (size[1], *(Location(one.file, one.line) for one in launches))
        yield Fact("config.least_memory_bytes", RUN, num_bytes, places)
        shared = f"; each of {processes} processes holds its share" if divided else ""
        yield Fact("config.least_memory_of", RUN, f"{' + '.join(held.of)}{shared}", places)


def _is_of_model(call: ConsumerCall) -> bool:
    """Whether the call is in words that say the whole of what is trained, and names the model."""
    return bool(about(call.dialect, "full")) and any(key in call.arguments for key in about(call.dialect, "model"))


def _size(call: ConsumerCall) -> tuple[float, Location] | None:
    """Billions of parameters at least, and where the name stands that says so."""
    for given in (call.arguments[key] for key in about(call.dialect, "model") if key in call.arguments):
        found = named_size(given)
        if found is not None and not UNTOLD.search(str(given.value).lower()):
            return found.billions * (OF_EXPERTS if found.has_experts else OF_THE_NAME), given.location
    return None


def _is_open(call: ConsumerCall, calls: Sequence[ConsumerCall], launches: Sequence[Launch]) -> bool:
    """Whether flags, a config of DeepSpeed or the user's own config of accelerate may say more than what was read."""
    if any(one.is_open for one in launches) or any(one.is_open for one in calls if one.dialect == call.dialect):
        return True
    if any(map(_starts_accelerate, launches)) and not _says_sharding(calls):
        return True
    return _gives_deepspeed(calls) and not any(one.dialect == "deepspeed" for one in calls)


def _starts_accelerate(launch: Launch) -> bool:
    """Whether accelerate starts the processes: of trl always, of axolotl unless it is told another launcher."""
    given = {**launch.own, **launch.flags}.get("launcher")
    is_told = given is not None and given.known and given.value in ("torchrun", "python")
    return launch.launcher in ("accelerate", "trl") or (launch.launcher == "axolotl" and not is_told)


def _says_sharding(calls: Sequence[ConsumerCall]) -> bool:
    """Whether a config of accelerate, which replaces the one in the user's home, is among the calls."""
    return any(
        one.dialect == "accelerate_config" and (given := one.arguments.get("distributed_type")) and given.known
        for one in calls
    )


def _gives_deepspeed(calls: Sequence[ConsumerCall]) -> bool:
    keys = ("deepspeed", "deepspeed_config_file", "deepspeed_config.deepspeed_config_file")
    return any(_is_on(one.arguments.get(key)) for one in calls for key in keys)


def _spreads(calls: Sequence[ConsumerCall], launches: Sequence[Launch]) -> bool:
    """Whether a key, a flag or a variable may lay one copy of the model over several devices, or change its shape."""
    types = [given for one in calls if (given := one.arguments.get("distributed_type")) is not None]
    if any(not given.known or str(given.value).upper() not in SHARDING for given in types if given.value is not None):
        return True
    found = [one for one in _given(calls, launches) if SPREADS.search(one[0]) and not FOLLOWED.search(one[0])]
    return any(_is_on(given) and (str(given.value) != "1" or "use_" in key) for key, given in found)


def _given(calls: Sequence[ConsumerCall], launches: Sequence[Launch]) -> Iterator[tuple[str, WrittenValue]]:
    """All that the files and commands give, by key in small letters."""
    launched = [part for one in launches for part in (one.own, one.flags, one.variables)]
    for given in (*(one.arguments for one in calls), *launched):
        yield from ((key.lower(), value) for key, value in given.items())


def _trains_on_gpu(
    call: ConsumerCall, calls: Sequence[ConsumerCall], launches: Sequence[Launch], python: Sequence[bytes]
) -> bool:
    """Whether a command surely starts a training, and on a GPU: a Trainer may be asked for an evaluation alone."""
    started = [str(part) for one in launches for part in (one.script, one.module) if part]
    given = dict(_given(calls, launches))
    device, visible = given.get("device"), given.get("cuda_visible_devices")
    is_hidden = visible is not None and visible.known and str(visible.value or "") in ("", "-1") and visible.value != 0
    is_elsewhere = device is not None and not str(device.value).startswith("cuda")
    is_unread = not python and any(one.endswith(".py") for one in started)
    if not launches or is_unread or any(map(NO_TRAINING.search, started)) or is_hidden or is_elsewhere:
        return False
    if any(key in ON_CPU and _is_on(one) for key, one in _given(calls, launches)):
        return False
    if "do_train" in given:
        return given["do_train"].known and _is_on(given["do_train"])
    if any(_is_on(given.get(key)) for key in ("do_eval", "do_predict")) or any(b"do_train" in one for one in python):
        return False
    return call.dialect != "llamafactory"


def _is_on(given: WrittenValue | None) -> bool:
    """Whether a key is given, and neither null, false nor 0: what is not known counts as given."""
    if given is None:
        return False
    return not given.known or WORDS.get(str(given.value).lower(), given.value) not in (None, False, 0)


def _processes(launches: Sequence[Launch], told: Mapping[str, Value]) -> int | None:
    """Processes of the job; None where they are not known: deepspeed starts some on each host of a file."""
    if any(one.launcher == "deepspeed" and "num_nodes" not in one.own for one in launches):
        return None
    known = told.get("config.num_processes")
    return known if isinstance(known, int) and known > 0 else None


def _held(
    call: ConsumerCall,
    calls: Sequence[ConsumerCall],
    settings: Mapping[str, Setting],
    launches: Sequence[Launch],
    told: Mapping[str, Value],
) -> Held | None:
    """What each parameter takes; None where weights may lie in CPU memory, or in a number of bits that is not known."""
    offloaded = str(told.get("config.offloads_to_cpu", "")).split(", ")
    bits = _bits(calls)
    if "parameters" in offloaded or bits is None:
        return None
    stage = _whole_number(settings.get("zero.stage"))
    divides_all = told.get("config.fsdp") is True or _shards_by_nature(call, launches)
    is_full = bits == 16 and _trains_all(call, calls, told)
    is_wide = is_full and _is_fp32(call, settings)
    each = FULL if is_wide else SIXTEEN_BIT
    amounts = {f"weights in {'fp32' if is_wide else f'{bits} bits'}": (each if is_wide else bits / 8, 3)}
    if is_full and "optimizer" not in offloaded:
        name = _optimizer(call, settings)
        if name and not _updates_in_backward(name, calls):
            amounts["gradients"] = (each, 2)
        is_zero = stage > 0 and not _keeps_16_bit(calls)
        if is_zero:
            amounts["DeepSpeed's copy in fp32"] = (FULL if not is_wide else 0.0, 1)
        moments = _moments(name) * (FULL if is_zero or is_wide else SIXTEEN_BIT)
        amounts[f"state of {name.rpartition('.')[2]}"] = (moments, 1)
    found = {what: (size, divides_all or stage >= since) for what, (size, since) in amounts.items() if size}
    return Held(
        sum(size for size, is_divided in found.values() if not is_divided),
        sum(size for size, is_divided in found.values() if is_divided),
        tuple(found),
    )


def _shards_by_nature(call: ConsumerCall, launches: Sequence[Launch]) -> bool:
    """torchtitan divides everything among its processes; torchtune does in its distributed recipes."""
    if call.dialect == "torchtune":
        return not any("single_device" in str(one.script or one.module) for one in launches)
    return call.dialect == "torchtitan"


def _trains_all(call: ConsumerCall, calls: Sequence[ConsumerCall], told: Mapping[str, Value]) -> bool:
    if told.get("config.is_lora") is True:
        return False
    alike = [one for one in calls if one.dialect == call.dialect]
    full, partial = (
        [given for one in alike for pattern in about(call.dialect, kind) for given in matching_arguments(one, pattern)]
        for kind in ("full", "partial")
    )
    return bool(full) and not any(map(_is_on, partial))


def _bits(calls: Sequence[ConsumerCall]) -> int | None:
    """Bits of a weight: 16 unless a key says that they are loaded in fewer; None where it does not say in how many."""
    found = 16
    for call in calls:
        for key, given in call.arguments.items():
            name = key.rpartition(".")[2].lower()
            if name.startswith("bnb_") or not re.search(r"quant|gptq|4bit|8bit|\bfp8", name):
                continue
            if not given.known:
                return None
            number = 1 if (value := WORDS.get(str(given.value).lower(), given.value)) is True else typed(value, "int")
            if value in (None, False, 0):
                continue
            told = {"load_in_4bit": 4, "load_in_8bit": 8, "quantization_bit": number}.get(name)
            if not isinstance(told, int):
                return None
            found = min(found, told)
        if call.dialect == "torchtune" and "qlora" in str(_value(call, "model._component_")):
            found = 4
        if "qlora" in str(_value(call, "adapter")):
            found = min(found, 4)
    return found


def _value(call: ConsumerCall, key: str) -> Value | None:
    given = call.arguments.get(key)
    return given.value if given is not None and given.known else None


def _is_fp32(call: ConsumerCall, settings: Mapping[str, Setting]) -> bool:
    """Whether parameters are surely fp32: torchtune's `dtype` is theirs; torchtitan's are unless it says another."""
    if call.dialect == "torchtitan":
        return DTYPES.get(str(_value(call, "training.dtype") or "float32")) == "fp32"
    precision = settings.get("train.precision")
    return call.dialect == "torchtune" and precision is not None and precision.value == "fp32"


def _optimizer(call: ConsumerCall, settings: Mapping[str, Setting]) -> str:
    """The optimizer's name; "" where it is not known. The Trainer of transformers has AdamW."""
    setting = settings.get("optimizer.name")
    if setting is not None and setting.value is not None:
        return str(setting.value)
    is_given = any(key in call.arguments for key in ("optim", "optimizer"))
    return "AdamW" if extends(call.dialect, "hf_trainer") and not is_given else ""


def _updates_in_backward(name: str, calls: Sequence[ConsumerCall]) -> bool:
    keys = [given for one in calls for key, given in one.arguments.items() if key.rpartition(".")[2] in IN_BACKWARD]
    return any(map(_is_on, keys)) or any(word in name.lower() for word in UPDATES_IN_BACKWARD)


def _moments(name: str) -> float:
    """The numbers of the weights' precision that an optimizer surely keeps for each parameter; 0 where it is not
    known."""
    plain = name.lower()
    if any(word in plain for word in LESS_THAN_A_MOMENT):
        return 0.0
    count = 2.0 if "adam" in plain else 1.0 if "lion" in plain else 0.0
    if "mini" in plain:
        count = 1.0
    if "4bit" in plain:
        return count / 8  # of 4 bytes
    return count / 4 if re.search(r"8_?bit|fp8", plain) else count


def _keeps_16_bit(calls: Sequence[ConsumerCall]) -> bool:
    """DeepSpeed's options that keep the optimizer's weights and state in bf16."""
    return any(
        _is_on(given)
        for call in calls
        if call.dialect == "deepspeed"
        for key, given in call.arguments.items()
        if "master_weights" in key or "optimizer_states" in key
    )


def _whole_number(setting: Setting | None) -> int:
    return setting.value if setting is not None and isinstance(setting.value, int) else 0
