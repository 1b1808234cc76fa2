"""The run as a whole: its framework and length, torch's switches, the model, allowlisted environment variables."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping

from autotune.catalogue import frameworks
from autotune.derive import interruptions, training_plan
from autotune.derive.recording_view import RecordingView
from autotune.model.evidence import RUN, Fact, Value
from autotune.model.recording import Json, Recording

ENVIRONMENT = (
    "CUDA_LAUNCH_BLOCKING",
    "TORCH_DISTRIBUTED_DEBUG",
    "PYTORCH_NO_CUDA_MEMORY_CACHING",
    "TORCH_CUDNN_V8_API_ENABLED",
    "OMP_NUM_THREADS",
)

MIXED_PRECISION: Mapping[str, str] = {"no": "off", "bf16": "bfloat16", "fp16": "float16"}
"""accelerate's words for autocast's dtype."""


def facts(view: RecordingView) -> Iterator[Fact]:
    """Facts `run.*`, `model.*` and `env.*`."""
    for name, value in {**_run(view), **_torch(view), **_model(view)}.items():
        if value is not None:
            yield Fact(name, RUN, value)
    for name in ENVIRONMENT:
        if name in view.recording.environment:
            yield Fact(f"env.{name.lower()}", RUN, view.recording.environment[name])


def _run(view: RecordingView) -> Mapping[str, Value | None]:
    process, steps, step_ms = view.recording.process, training_plan.num_steps(view), interruptions.run_ms(view)
    return {
        "run.is_traced": view.recording.trace is not None,
        "run.framework": training_plan.framework(view.recording).name,
        "run.world_size": process["world_size"],
        "run.local_world_size": process["local_world_size"],
        "run.num_planned_steps": steps,
        "run.num_planned_epochs": training_plan.num_epochs(view),
        "run.step_ms": step_ms,
        "run.planned_s": steps * step_ms / 1e3 if steps and step_ms is not None else None,
        "run.remakes_loaders": _remakes_loaders(view),
        "run.global_batch": global_batch(view),
        "run.can_pack": training_plan.can_pack(view.recording),
    }


def _remakes_loaders(view: RecordingView) -> bool | None:
    """Whether the framework asks for new loaders every few epochs; None where it has no such setting."""
    every = training_plan.framework(view.recording).says("run.remakes_loaders")
    return every > 0 if isinstance(every, int) else None


def global_batch(view: RecordingView) -> int | None:
    """micro-batch x accumulation x world size."""
    size, steps = training_plan.micro_batch(view), training_plan.accumulation(view)
    return size * steps * int(view.recording.process["world_size"]) if size and steps else None


def _torch(view: RecordingView) -> Mapping[str, Value | None]:
    state = view.recording.torch_state
    compiled: Json = view.recording.compile or {}
    start, end = compiled.get("recompiles_at_start"), compiled.get("recompiles_at_end")
    models, main = root_models(view), largest(view)
    return {
        "run.autocast": autocast(view.recording),
        "run.grad_scaler": None if scales_itself(view.recording) else state.get("grad_scaler"),
        "run.clips_scaled_gradients": state.get("clips_scaled"),
        "run.legacy_amp": state.get("legacy_amp"),
        "run.num_threads": state.get("num_threads"),
        "run.is_profiled": _is_profiled(view),
        "run.cudnn_benchmark": state.get("cudnn_benchmark"),
        "run.num_graph_breaks": compiled.get("graph_breaks"),
        "run.num_recompiles_in_window": end - start if start is not None and end is not None else None,
        "run.num_compiling_steps": compiled.get("compiling_steps"),
        "run.parallel": (main.get("parallel") or "none") if main else None,
        "run.compiled": any(model["compiled"] for model in models) if models else None,
    }


def _is_profiled(view: RecordingView) -> bool | None:
    """Whether a profiler recorded every step of the window; one with a schedule rests between."""
    steps = view.recording.torch_state.get("profiled_steps")
    return None if steps is None or view.window is None else steps >= view.window.steps


def autocast(recording: Recording) -> str | None:
    """float16, bfloat16 or off; None when no forward was looked at.

    accelerate switches it on inside the model's own forward, where the probe does not look: its setting says so.
    """
    value = recording.torch_state.get("autocast")
    if value is not None:
        return str(value).removeprefix("torch.")
    for key, name in frameworks.settings_objects().items():
        field, entry = frameworks.observed(name).get("run.autocast"), recording.frameworks.get(key)
        if field and entry:
            return MIXED_PRECISION.get(str(entry["values"].get(field)))
    return None


def scales_itself(recording: Recording) -> bool:
    """Whether an engine (DeepSpeed's, Megatron's) may scale an fp16 loss by itself, without torch's GradScaler.

    Told fp16 and deepspeed loaded is enough where the framework hands both to it.
    """
    if recording.torch_state.get("grad_scaler") or autocast(recording) != "float16":
        return False
    known, objects = frameworks.frameworks(), frameworks.settings_objects()
    engines = {engine for key in recording.frameworks if key in objects for engine in known[objects[key]].engines}
    is_wrapped = any(
        str(name).endswith("Engine")
        for model in recording.models
        for name in (model.get("type"), model.get("parallel"))
    )
    return is_wrapped or not engines.isdisjoint(recording.software)


def root_models(view: RecordingView) -> list[Json]:
    """The models that were trained: called with gradients. All of them when none was, e.g. in a run that died early."""
    models: list[Json] = [model for model in view.recording.models if model.get("type")]
    trained = {
        node.event.ref
        for node in view.nodes
        if node.event.kind == "forward" and node.event.flag & 1 and not view.is_evaluation(node.start_ns)
    }
    return [model for model in models if model["id"] in trained] or models


def largest(view: RecordingView) -> Json | None:
    """The root model with the most parameters."""
    return max(root_models(view), key=lambda model: model["num_params"], default=None)


def _model(view: RecordingView) -> Mapping[str, Value | None]:
    models, main = root_models(view), largest(view)
    if main is None:
        return {}
    dtypes: Counter[str] = Counter()
    for model in models:
        dtypes.update(model["dtypes"])
    return {
        "model.num_params": sum(model["num_params"] for model in models),
        "model.num_trainable_params": sum(model["num_trainable"] for model in models),
        "model.dtype": dtypes.most_common(1)[0][0].removeprefix("torch.") if dtypes else None,
        "model.is_remote_code": is_remote_code(main),
        "model.has_native_class": main.get("has_native_class"),
        "model.supports_sdpa": main.get("supports_sdpa"),
        "model.outputs_attentions": main.get("output_attentions"),
        "model.has_batchnorm": any(model["num_batchnorm"] for model in models),
        "model.type": main["type"],
        "model.adds_losses": _adds_losses(view),
    }


def _adds_losses(view: RecordingView) -> bool | None:
    """As the Trainer and its model are; None where neither was seen."""
    told = (entry["values"].get("adds_losses") for entry in view.recording.frameworks.values())
    return next((one for one in told if one is not None), None)


def is_remote_code(model: Json) -> bool:
    """Whether the class comes from a hub repository."""
    told = model.get("is_remote_code")
    return bool(told) if told is not None else str(model["module"]).split(".")[0] == "transformers_modules"
