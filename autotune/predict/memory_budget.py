"""Where the memory of the window's peak went: what was measured of it, what is modelled, and what is not known."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from autotune.catalogue.devices import CUDA_CONTEXT
from autotune.model.outlook import MemoryBudget, MemoryPart
from autotune.model.recording import Json, Recording

PROCESS, WEIGHTS, GRADIENTS, OPTIMIZER = "Python and torch", "weights", "gradients", "optimizer state"
ACTIVATIONS, CACHE, HEADROOM = "activations and the rest", "allocator cache", "headroom"

_ITEM_BYTES = {"float64": 8, "float32": 4, "float16": 2, "bfloat16": 2}
_STATES = {"Adam": 2, "AdamW": 2, "NAdam": 2, "RAdam": 2, "Adamax": 2, "Adadelta": 2, "Adagrad": 1}
"""Tensors of a parameter's own size that torch's optimizers keep. SGD keeps one with momentum."""

_IN_REST = " is not known; it is part of the rest"
_SHARDED = ("FullyShardedDataParallel", "FSDP")


def memory_budget(recording: Recording, limit_bytes: int | None) -> MemoryBudget | None:
    """The parts of rank 0's peak; None without a peak or a model.

    `limit_bytes` is the host's for a CPU run; a GPU's own memory is in the Recording.
    """
    memory, models = recording.memory, _models(recording)
    on_device = recording.device_type == "cuda"
    peak = memory.get("peak_reserved_bytes" if on_device else "rss_peak_bytes")
    if peak is None or not models:
        return None
    parts = [*_process(memory, on_device), *_of_models(recording, models)]
    parts.append(_rest(memory.get("peak_allocated_bytes") if on_device else peak, parts))
    allocated = memory.get("peak_allocated_bytes")
    if on_device and allocated is not None:
        parts.append(MemoryPart(CACHE, peak - allocated, "measured", "reserved beyond the peak of what was in use"))
    limit = memory.get("total_bytes") if on_device else limit_bytes
    parts.append(_headroom(limit, peak, on_device, recording.process.get("local_world_size")))
    held = max((used for _, used in recording.window.memory_bytes), default=None) if recording.window else None
    return MemoryBudget(tuple(parts), peak, limit, on_device, held)


def card_need(memory: MemoryBudget, factor: float = 1.0) -> tuple[int, int]:
    """Bytes that a card needs at least and at most for the step of `memory`, with `factor` times its micro-batch.

    Activations and the rest grow in step with the micro-batch, or not at all. Lower end: what was in use at the peak,
    without the allocator's cache, of fewer samples without their part of the activations. Upper end: the whole measured
    peak, of more samples with its rest scaled up. Where the peak was the host's, or what was in use is not known, only
    weights, gradients and optimizer state are surely needed.
    """
    fixed = min(memory.peak_bytes, sum(memory.of(name) or 0 for name in (WEIGHTS, GRADIENTS, OPTIMIZER)))
    cache = memory.of(CACHE)
    in_use = fixed if cache is None or not memory.on_device else memory.peak_bytes - cache
    low = fixed + (in_use - fixed) * min(1.0, factor)
    high = fixed + (memory.peak_bytes - fixed) * max(1.0, factor)
    return int(low) + CUDA_CONTEXT[0], int(max(low, high)) + CUDA_CONTEXT[1]


def _models(recording: Recording) -> list[Json]:
    """The models that were called with gradients, or else all; one with and without its wrapper counts once."""
    trained = {event.ref for event in recording.events if event.kind == "forward" and event.flag & 1}
    known = [model for model in recording.models if model.get("param_bytes") is not None]
    found = [model for model in known if model["id"] in trained] or known
    alike: dict[tuple[object, ...], dict[tuple[object, ...], list[Json]]] = {}
    for model in found:
        of_a_kind = alike.setdefault((model["type"], model["num_params"], model["param_bytes"]), {})
        of_a_kind.setdefault((model.get("parallel"), model.get("compiled")), []).append(model)
    # Two that are wrapped alike are two models, as twin critics; each of them may have been called unwrapped too.
    return [model for wrapped in alike.values() for model in max(reversed(wrapped.values()), key=len)]


def _process(memory: Json, on_device: bool) -> Iterator[MemoryPart]:
    """The interpreter and torch, which share the host's memory with the model; later imports are in the rest."""
    if not on_device:
        start = memory.get("rss_start_bytes")
        how = "resident once torch was imported" if start is not None else "not seen at the start"
        yield MemoryPart(PROCESS, start, None if start is None else "measured", how)


def _of_models(recording: Recording, models: Sequence[Json]) -> Iterator[MemoryPart]:
    weights = sum(model["param_bytes"] for model in models)
    gradients = _gradient_bytes(models)
    yield MemoryPart(WEIGHTS, weights, "measured", "read off the parameters")
    how = "one per trained parameter, in its type" if gradients is not None else f"what type trains{_IN_REST}"
    yield MemoryPart(GRADIENTS, gradients, None if gradients is None else "modelled", how)
    yield _optimizer_state(recording, models, gradients)


def _gradient_bytes(models: Sequence[Json]) -> int | None:
    """Bytes of one gradient for each trained parameter; None when types are mixed and which ones train is not known."""
    sizes = [_trained_bytes(model) for model in models]
    known = [size for size in sizes if size is not None]
    return sum(known) if len(known) == len(sizes) else None


def _trained_bytes(model: Json) -> int | None:
    counts = {name.removeprefix("torch."): count for name, count in model["dtypes"].items()}
    trained, total = model["num_trainable"], model["num_params"]
    if trained == total:
        return int(model["param_bytes"])
    of_size = [name for name, count in counts.items() if count == trained or len(counts) == 1]
    item = _ITEM_BYTES.get(of_size[0]) if len(of_size) == 1 else None
    return None if item is None else trained * item


def _optimizer_state(recording: Recording, models: Sequence[Json], gradients: int | None) -> MemoryPart:
    """What was read, or what one serialised state held beside the weights, or else what torch's class keeps."""
    kept = _kept_bytes(recording)
    if kept is not None:
        return MemoryPart(OPTIMIZER, kept, "measured", "read off the optimizer's state")
    saved = next((w for w in recording.what_ifs if w.name == "serialise" and w.outcome == "completed"), None)
    whole = len(models) == 1 and models[0].get("parallel") not in _SHARDED
    if saved is not None and whole and saved.result["bytes"] >= models[0]["param_bytes"]:
        found = saved.result["bytes"] - models[0]["param_bytes"]
        return MemoryPart(OPTIMIZER, found, "measured", "the state, serialised once, without the weights")
    optimizers = [row for row in recording.optimizers if row.get("type")]
    states = {_num_states(row) for row in optimizers}
    count = states.pop() if len(states) == 1 else None
    if count is None or gradients is None:
        names = " and ".join(dict.fromkeys(str(row["type"]) for row in optimizers)) or "an optimizer that was not seen"
        return MemoryPart(OPTIMIZER, None, None, f"what {names} keeps{_IN_REST}")
    how = f"{count} of a gradient's size per trained parameter ({optimizers[0]['type']})"
    return MemoryPart(OPTIMIZER, count * gradients, "modelled", how)


def _kept_bytes(recording: Recording) -> int | None:
    """Bytes of all optimizers' states in the memory that the budget is of; None when one of them was not read."""
    kind = "cuda" if recording.device_type == "cuda" else "cpu"
    states = [row.get("state_bytes") for row in recording.optimizers if row.get("type")]
    known = [state.get(kind, 0) for state in states if state is not None]
    return sum(known) if known and len(known) == len(states) else None


def _num_states(optimizer: Json) -> int | None:
    """Tensors per parameter of torch's own classes; None for others."""
    arguments = optimizer["arguments"]
    if not str(optimizer["module"]).startswith("torch.optim"):
        return None
    if optimizer["type"] == "SGD" and "momentum" in arguments:
        return int(arguments["momentum"] > 0)
    count = _STATES.get(optimizer["type"])
    return None if count is None else count + bool(arguments.get("amsgrad"))


def _rest(peak: int | None, parts: Sequence[MemoryPart]) -> MemoryPart:
    """What is left of the peak: activations, batches, temporary results, later imports, and what above is unknown."""
    if peak is None:
        return MemoryPart(ACTIVATIONS, None, None, "the peak of what was in use is not known")
    unknown = [part.name for part in parts if part.num_bytes is None]
    rest = peak - sum(part.num_bytes or 0 for part in parts)
    if rest < 0:
        return MemoryPart(
            ACTIVATIONS, None, None, "the parts add up to more than the peak: not all were in memory at once"
        )
    also = f", with {' and '.join(unknown)}" if unknown else ""
    return MemoryPart(ACTIVATIONS, rest, "modelled", f"the rest of the measured peak{also}")


def _headroom(limit: int | None, peak: int, on_device: bool, num_local: int | None) -> MemoryPart:
    if limit is None:
        return MemoryPart(HEADROOM, None, None, "the limit is not known")
    if not on_device and num_local is not None and num_local > 1:
        return MemoryPart(HEADROOM, None, None, f"{num_local} processes share the limit")
    whose = "CUDA's own context and other programs" if on_device else "loader workers and other programs"
    return MemoryPart(HEADROOM, max(0, limit - peak), "measured", f"limit minus peak; {whose} not counted")
