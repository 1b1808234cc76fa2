"""Settings that follow from others: what a framework works out itself from the keys that it reads."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import prod

from msgspec.structs import replace

from autotune.catalogue.coercion import typed
from autotune.catalogue.dialects import Version, about, dialects, extends
from autotune.model.evidence import RUN, Setting
from autotune.model.scanned import ConsumerCall

Settings = Mapping[tuple[str, str], Setting]
"""By name and subject; a value of None is given and not known."""

DTYPES: Mapping[str, str] = {
    "bfloat16": "bf16",
    "torch.bfloat16": "bf16",
    "bf16": "bf16",
    "float16": "fp16",
    "torch.float16": "fp16",
    "fp16": "fp16",
    "half": "fp16",
    "torch.half": "fp16",
    "float32": "fp32",
    "torch.float32": "fp32",
    "torch.float": "fp32",
}
"""How the dtype of a model is written, as train.precision."""

AUTO_DTYPE_SINCE = (5,)
"""The transformers release whose from_pretrained takes the checkpoint's dtype unless it is told one."""


def complete_settings(
    found: Settings, calls: Sequence[ConsumerCall], versions: Mapping[str, Version]
) -> tuple[Setting, ...]:
    """All settings whose value is known, with those that follow from them."""
    known = {key: setting for key, setting in found.items() if setting.value is not None}
    for make in (_evaluation_interval, _accumulation, _compile, _autocast, _tf32):
        new = make(known, calls)
        if new is not None and (new.name, new.subject) not in found:
            known[new.name, new.subject] = new
    return tuple(_precision(known, calls, versions).values())


def num_processes(calls: Sequence[ConsumerCall]) -> int | None:
    """Processes that train, as a config states them; None where none does, or with a value that is not a number.

    The first of several keys counts devices, and a framework takes all that there are unless it is told how many.
    """
    for call in calls:
        keys = about(call.dialect, "processes")
        given = [call.arguments[key] for key in keys if key in call.arguments]
        if given and keys[0] not in call.arguments:
            return None
        if given:
            counts = [typed(one.value, "int") if one.known else None for one in given]
            numbers = [count for count in counts if isinstance(count, int) and count > 0]
            return prod(numbers) if len(numbers) == len(counts) else None
    return None


def _evaluation_interval(known: Settings, calls: Sequence[ConsumerCall]) -> Setting | None:
    """TrainingArguments that evaluates every so many steps and is not told how many: every logging_steps of them.

    They count here whatever logging_strategy says.
    """
    name, trainers = "evaluation.interval_steps", [call for call in calls if is_trainer(call)]
    strategy, logging = known.get(("evaluation.strategy", RUN)), known.get(("logging.interval_steps", RUN))
    is_told = any(call.is_open for call in trainers) or not trainers
    if strategy is None or strategy.value != "steps" or is_told:
        return None
    if logging is not None:
        return replace(logging, name=name)
    written = next((one for call in trainers if (one := call.arguments.get("logging_steps")) is not None), None)
    steps = typed(written.value, "int") if written is not None and written.known else None
    if written is None or steps is None:
        return None
    return Setting(name, RUN, steps, "static", written.location, spelling="logging_steps")


def _accumulation(known: Settings, calls: Sequence[ConsumerCall]) -> Setting | None:
    """Global batch / (micro-batch x processes), where a framework derives it and the processes are known."""
    stated, micro = known.get(("train.global_batch", RUN)), known.get(("loader.batch_size", "loader#train"))
    processes = num_processes(calls)
    if stated is None or micro is None or processes is None:
        return None
    together = whole(micro) * processes
    return replace(stated, name="train.accumulation_steps", value=max(1, whole(stated) // max(1, together)))


def whole(setting: Setting) -> int:
    """The value of a setting that is an integer."""
    return setting.value if isinstance(setting.value, int) else 0


def _compile(known: Settings, calls: Sequence[ConsumerCall]) -> Setting | None:
    """A script that calls torch.compile; one that does not may leave it to a file that is not read."""
    found = next((call for call in calls if call.name == "torch.compile"), None)
    at = found.location if found else None
    return Setting("train.compile", RUN, True, "static", at, feeds=at) if found else None


def _autocast(known: Settings, calls: Sequence[ConsumerCall]) -> Setting | None:
    """Mixed precision by autocast with a dtype that is given; torch.cuda.amp.autocast has float16 of its own."""
    for call in calls:
        enabled, dtype = call.arguments.get("enabled"), call.arguments.get("dtype")
        if not call.name.endswith(".autocast") or (enabled and not (enabled.known and enabled.value is True)):
            continue
        is_cuda = call.name == "torch.cuda.amp.autocast" and not call.is_open
        name = DTYPES.get(str(dtype.value)) if dtype and dtype.known else "fp16" if is_cuda and not dtype else None
        if name in ("bf16", "fp16"):
            at = dtype.location if dtype else call.location
            return Setting("train.precision", RUN, f"{name}-mixed", "static", at, spelling="dtype", feeds=call.location)
    return None


def _tf32(known: Settings, calls: Sequence[ConsumerCall]) -> Setting | None:
    """torch.backends.cuda.matmul.allow_tf32, the old way to say set_float32_matmul_precision."""
    given = [call.arguments.get("value") for call in calls if call.name == "torch.backends.cuda.matmul.allow_tf32"]
    if len(given) != 1 or given[0] is None or not isinstance(given[0].value, bool):
        return None
    value = "high" if given[0].value else "highest"
    return Setting("train.matmul_precision", RUN, value, "static", given[0].location, spelling="allow_tf32")


def _precision(known: Settings, calls: Sequence[ConsumerCall], versions: Mapping[str, Version]) -> Settings:
    """train.precision means the parameters' own dtype where the model is loaded in half precision.

    Parameters are fp32 for certain only where the model is loaded as fp32, or no library loads it.
    """
    key = ("train.precision", RUN)
    loads = [call for call in calls if call.name == "from_pretrained" or is_trainer(call)]
    written = [call.arguments[name] for call in loads for name in ("dtype", "torch_dtype") if name in call.arguments]
    dtypes = {DTYPES.get(str(one.value)) if one.known else None for one in written}
    if loads and not written:
        dtypes = {"fp32" if versions.get("transformers", AUTO_DTYPE_SINCE) < AUTO_DTYPE_SINCE else None}
    if dtypes in ({"bf16"}, {"fp16"}):
        at = written[0]
        return {**known, key: Setting(*key, next(iter(dtypes)), "static", at.location, spelling=at.key)}
    is_sure = not dtypes or dtypes == {"fp32"} or key not in known or known[key].value != "fp32"
    return known if is_sure else {one: setting for one, setting in known.items() if one != key}


def is_trainer(call: ConsumerCall) -> bool:
    """Whether the call is a TrainingArguments, or in words that extend its."""
    return call.dialect in dialects() and extends(call.dialect, "hf_trainer")
