"""Facts config.*: what follows from several settings, or from keys that are no setting."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from autotune.catalogue.coercion import typed
from autotune.catalogue.dialects import about
from autotune.model.evidence import RUN, Fact, Location, Setting, Value
from autotune.model.scanned import ConsumerCall, WrittenValue
from autotune.model.source import NOTEBOOK
from autotune.scan.configs import matching_arguments
from autotune.scan.framework_defaults import num_processes, whole
from autotune.scan.launch import Launch
from autotune.scan.model_size import named_size

Settings = Mapping[str, Setting]
"""By name; of the loaders the training loader's."""

SHARDS_PARAMETERS = 3
"""The stage from which on ZeRO shards parameters."""

ROLLS_OUT = frozenset({"GRPOConfig"})
"""The config of trl's trainer that samples completions with transformers unless vLLM is asked for; RLOO's has known
vLLM in some releases only."""

ENGINES = ("use_vllm", "use_transformers_paged")
"""Their options that have another engine sample."""

SCHEDULER, SCHEDULE = "scheduler.type", "lr_scheduler_type"
"""The keys of DeepSpeed's schedule and of the Trainer's."""

ALIKE = {
    "WarmupLR": ("constant_with_warmup", "constant"),
    "WarmupDecayLR": ("linear",),
    "WarmupCosineLR": ("cosine",),
}
"""DeepSpeed's schedules, and the Trainer's names of what they do."""

PARAMETERS_PER_LAYER = 12
"""Times the width squared: attention 4, a feed-forward of four widths 8 (the shape of GPT-2)."""


def facts(calls: Sequence[ConsumerCall], settings: Sequence[Setting], launches: Sequence[Launch]) -> Iterator[Fact]:
    """Facts `config.*` that are certain; `settings` are those of the calls."""
    named = {one.name: one for one in reversed(settings) if one.subject in (RUN, "loader#train")}
    yield from _evaluation(named)
    yield from _checkpoints(calls, named)
    yield from _fsdp(calls, named)
    yield from _offloads(calls, named)
    yield from _batches(calls, named, launches)
    yield from _model(calls)
    yield from _processes(calls, launches)
    yield from _rollouts(calls)
    yield from _schedules(calls)


def _evaluation(named: Settings) -> Iterator[Fact]:
    """Evaluation every `steps`: a Trainer that is not told how many takes those of logging."""
    strategy, interval = named.get("evaluation.strategy"), named.get("evaluation.interval_steps")
    if strategy is not None and strategy.value == "steps" and interval is not None:
        yield _fact("eval_follows_logging", interval.spelling == "logging_steps", strategy.location, interval.location)


def _checkpoints(calls: Sequence[ConsumerCall], named: Settings) -> Iterator[Fact]:
    limit, strategy = named.get("checkpoint.total_limit"), named.get("checkpoint.strategy")
    if limit is not None:
        yield _fact("limits_checkpoints", True, limit.location)
    elif strategy is not None and strategy.value == "no":
        yield _fact("limits_checkpoints", True, strategy.location)
    elif strategy is not None and not any(call.is_open or "save_total_limit" in call.arguments for call in calls):
        yield _fact("limits_checkpoints", False, strategy.location)


def _fsdp(calls: Sequence[ConsumerCall], named: Settings) -> Iterator[Fact]:
    """torch's FSDP of several processes; that of torch_xla has other versions and its own checkpointing."""
    if _arguments_about(calls, "fsdp_xla") or num_processes(calls) == 1:
        return
    asked, legacy = _arguments_about(calls, "fsdp"), _arguments_about(calls, "fsdp_legacy")
    version = named.get("fsdp.version")
    if asked:
        yield _fact("fsdp", True, asked[0].location)
    if asked and legacy:
        yield _fact("fsdp_is_legacy", True, legacy[0].location)
    elif asked and version is not None:
        yield _fact("fsdp_is_legacy", version.value == 1, version.location)


def _offloads(calls: Sequence[ConsumerCall], named: Settings) -> Iterator[Fact]:
    """What is kept in CPU memory; nothing is said where nothing is. ZeRO below stage 3 has all parameters on the GPU,
    whatever is said of them."""
    zero = {"optimizer": named.get("zero.offload_optimizer"), "parameters": named.get("zero.offload_param")}
    stage = named.get("zero.stage")
    if stage is not None and whole(stage) < SHARDS_PARAMETERS:
        zero["parameters"] = None
    found: dict[str, Location | None] = {}
    for what in ("optimizer", "parameters", "activations"):
        setting, given = zero.get(what), _arguments_about(calls, f"offload_{what}")
        if setting is not None and setting.value in ("cpu", "nvme"):
            found[what] = setting.location
        elif given:
            found[what] = given[0].location
    if found:
        yield _fact("offloads_to_cpu", ", ".join(found), *found.values())


def _batches(calls: Sequence[ConsumerCall], named: Settings, launches: Sequence[Launch]) -> Iterator[Fact]:
    stated, micro = named.get("train.global_batch"), named.get("loader.batch_size")
    accumulation = named.get("train.accumulation_steps")
    if stated is not None:
        yield _fact("stated_global_batch", whole(stated), stated.location)
    if stated is not None and micro is not None:
        on_one = max(1, whole(stated) // max(1, whole(micro)))
        yield _fact("accumulation_on_one_process", on_one, stated.location, micro.location)
    started = {launch.num_processes for launch in launches} or {None}
    processes = num_processes(calls) or (started.pop() if len(started) == 1 else None)
    is_derived = accumulation is not None and stated is not None and accumulation.location == stated.location
    if micro is not None and accumulation is not None and processes is not None and not is_derived:
        total = whole(micro) * whole(accumulation) * processes
        yield _fact("computed_global_batch", total, micro.location, accumulation.location)


def _processes(calls: Sequence[ConsumerCall], launches: Sequence[Launch]) -> Iterator[Fact]:
    started = {launch.num_processes for launch in launches} or {None}
    known = num_processes(calls) or (started.pop() if len(started) == 1 else None)
    if known is not None:
        stated = [
            given.location
            for call in calls
            for key in about(call.dialect, "processes")
            if (given := call.arguments.get(key))
        ]
        yield _fact("num_processes", known, *stated, *(Location(one.file, one.line) for one in launches))


def _rollouts(calls: Sequence[ConsumerCall]) -> Iterator[Fact]:
    """Completions that the trainer samples itself; nothing is said of a notebook, in which vLLM may not start."""
    made = [one for one in calls if one.dialect == "trl" and one.name in ROLLS_OUT]
    if made and not any(one.is_open or one.location.file.endswith(NOTEBOOK) for one in made):
        given = [one.arguments[key] for one in made for key in ENGINES if key in one.arguments]
        if all(one.known and not one.is_default and typed(one.value, "bool") is False for one in given):
            yield _fact("samples_itself", True, given[0].location if given else made[0].location)


def _schedules(calls: Sequence[ConsumerCall]) -> Iterator[Fact]:
    """The schedule that the Trainer is asked for, where DeepSpeed's config brings another, which takes its place."""
    own = [one.arguments[SCHEDULER] for one in calls if one.dialect == "deepspeed" and SCHEDULER in one.arguments]
    asked = [one.arguments[SCHEDULE] for one in calls if one.dialect != "deepspeed" and SCHEDULE in one.arguments]
    if len({str(one.value) for one in own}) != 1 or len({str(one.value) for one in asked}) != 1:
        return
    if not all(one.known and not one.is_default and not one.doubt for one in (*own, *asked)):
        return
    alike = ALIKE.get(str(own[0].value))
    if alike is not None and str(asked[0].value) not in alike:
        yield _fact("ignored_schedule", str(asked[0].value), asked[0].location)
        yield _fact("deepspeed_schedule", str(own[0].value), own[0].location)


def _model(calls: Sequence[ConsumerCall]) -> Iterator[Fact]:
    adapters = [call.location for call in calls if call.name == "LoraConfig"]
    # Options that several scripts share have defaults for adapters that this one may not make.
    lora = [one for one in _arguments_about(calls, "lora") if adapters or not one.is_default]
    if lora or adapters:
        yield _fact("is_lora", True, lora[0].location if lora else adapters[0])
    sizes = [found for call in calls if (found := _size(call)) is not None]
    if sizes:
        yield _fact("model_size_b", *sizes[0])


def _size(call: ConsumerCall) -> tuple[float, Location] | None:
    """Billions of parameters as the model's name says, else as layers and width do, embeddings left out."""
    keys = about(call.dialect, "model") or ("pretrained_model_name_or_path",)
    for given in (call.arguments[key] for key in keys if key in call.arguments):
        found = named_size(given)
        if found is not None:
            return found.billions, given.location
    shape = [call.arguments[key] for key in about(call.dialect, "shape") if key in call.arguments]
    numbers = [number for one in shape if one.known and isinstance(number := typed(one.value, "int"), int)]
    if len(numbers) < 2:
        return None
    layers, width = numbers
    return PARAMETERS_PER_LAYER * layers * width**2 / 1e9, shape[0].location


def _arguments_about(calls: Sequence[ConsumerCall], what: str) -> list[WrittenValue]:
    """The arguments that match what the dialects say about `what`."""
    return [
        given for call in calls for pattern in about(call.dialect, what) for given in matching_arguments(call, pattern)
    ]


def _fact(name: str, value: Value, *places: Location | None) -> Fact:
    return Fact(f"config.{name}", RUN, value, tuple(place for place in places if place is not None))
