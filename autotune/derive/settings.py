"""The settings as observed: values that were in force, and the call sites that gave them."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from msgspec import Struct
from msgspec.structs import replace

from autotune import catalogue
from autotune.catalogue import frameworks
from autotune.catalogue.frameworks import IntervalKind
from autotune.derive import interruptions, lengths, optimizer, run, training_plan
from autotune.derive.loaders import LoaderSubject
from autotune.derive.recording_view import RecordingView
from autotune.derive.step import train_batches
from autotune.model.evidence import RUN, Location, Origin, Setting, Value
from autotune.model.recording import Json

LOADER_DEFAULTS: Mapping[str, tuple[Value | None, ...]] = {
    "num_workers": (0,),
    "batch_size": (1,),
    "prefetch_factor": (None, 2),
    "pin_memory": (False,),
    "persistent_workers": (False,),
}
"""torch's own; a value that differs was given, positionally if not by name."""

INTERVALS: tuple[IntervalKind, ...] = ("checkpoint", "evaluation", "logging")

PRECISIONS: Mapping[str, str] = {"float32": "fp32", "bfloat16": "bf16", "float16": "fp16"}

THREADS = ("OMP_NUM_THREADS", "MKL_NUM_THREADS")
"""Variables that say how many threads torch computes with."""

TF32 = ("NVIDIA_TF32_OVERRIDE", "TORCH_ALLOW_TF32_CUBLAS_OVERRIDE")
"""Variables that decide on TF32, whatever a script says."""


class ObservedValue(Struct, frozen=True):
    """A value of the run, where it was given (None: nowhere that is known), and whether it was given at all."""

    value: Value | None
    location: Location | None = None
    given: bool = True


def settings(view: RecordingView) -> Iterator[Setting]:
    """Every canonical setting that was observed. Which edit would change it is not decided here (trusted=False)."""
    for setting in _observed(view):
        yield replace(setting, spelling=_spelling(view, setting))


def _observed(view: RecordingView) -> Iterator[Setting]:
    for loader in view.loaders:
        yield from _loader(view, loader)
    for row in view.recording.optimizers:
        yield from _optimizer(view, row)
    # What was seen in force counts before what the framework was told.
    parts = (_told(view), _training(view), _intervals(view), _data(view))
    known = {name: seen for part in parts for name, seen in part.items() if seen.value is not None}
    for name, seen in known.items():
        yield Setting(name, RUN, seen.value, _origin(seen.given), seen.location)


def _spelling(view: RecordingView, setting: Setting) -> str:
    """The key of the call at the setting's place: the framework's, or torch's where the user calls torch."""
    told = training_plan.framework(view.recording)
    dialect = told.name if setting.location == told.location else "raw"
    found = catalogue.spelling(dialect, setting.name, _versions(view.recording.software))
    return found.key if found else ""


def _versions(software: Mapping[str, str]) -> dict[str, tuple[int, ...]]:
    """{"torch": "2.13.0+cpu"} as {"torch": (2, 13, 0)}."""
    numbers = {name: re.match(r"\d+(\.\d+)*", text) for name, text in software.items()}
    return {name: tuple(map(int, found[0].split("."))) for name, found in numbers.items() if found}


def _loader(view: RecordingView, loader: LoaderSubject) -> Iterator[Setting]:
    row = loader.own
    place = _place(view, row["site"], "DataLoader")
    for name, defaults in LOADER_DEFAULTS.items():
        value = row["arguments"].get(name)
        if value is not None:
            given = name in row["given"] or value not in defaults
            yield Setting(f"loader.{name}", loader.subject, value, _origin(given), place)
    method = row["arguments"].get("multiprocessing_context")
    if method is not None:
        yield Setting("loader.start_method", loader.subject, method, "observed", place)


def _place(view: RecordingView, site: Json, call: str) -> Location | None:
    """The user's own call, or the framework's object when a library makes the call for it."""
    told = training_plan.framework(view.recording).location
    return training_plan.location(site, call) if site["is_user"] or told is None else told


def _optimizer(view: RecordingView, row: Json) -> Iterator[Setting]:
    """`fused` left unset means not fused: torch then chooses between foreach and a plain loop."""
    fused = row["arguments"].get("fused")
    if fused is None and not row.get("has_fused"):
        return
    at = _place(view, row["site"], row["type"])
    yield Setting("optimizer.fused", optimizer.subject(row["id"]), bool(fused), _origin(fused is not None), at)


def _origin(given: bool) -> Origin:
    return "observed" if given else "default"


def _training(view: RecordingView) -> Mapping[str, ObservedValue]:
    """What the model and torch were, at the framework's object where it has a say in that.

    The place where a raw script builds its model is not known: a model is first seen when it is called.
    """
    state, told = view.recording.torch_state, training_plan.framework(view.recording)
    at = told.location
    main = run.largest(view)
    decided_at = {name: at for one in frameworks.chain(told.name) for name in one.decides}
    steps_at = at if training_plan.configured_accumulation(told) is not None else None
    return {
        "train.accumulation_steps": ObservedValue(training_plan.accumulation(view), steps_at),
        "train.activation_checkpointing": ObservedValue(
            activation_checkpointing(view), decided_at.get("train.activation_checkpointing")
        ),
        "train.precision": ObservedValue(precision(view), at),
        "train.matmul_precision": ObservedValue(state.get("matmul_precision"), given=_is_matmul_told(view)),
        "train.compile": ObservedValue(
            any(m["compiled"] for m in run.root_models(view)) if main else None,
            decided_at.get("train.compile"),
        ),
        "train.compile_mode": ObservedValue(told.says("train.compile_mode"), at),
        "train.anomaly_detection": ObservedValue(state.get("anomaly")),
        "train.empty_cache_steps": ObservedValue(told.says("train.empty_cache_steps"), at),
        "train.num_threads": ObservedValue(state.get("num_threads"), given=_are_threads_told(view)),
        "model.attention": ObservedValue(main.get("attention") if main else None),
        "model.trust_remote_code": ObservedValue(run.is_remote_code(main) if main else None),
    }


def _is_matmul_told(view: RecordingView) -> bool:
    """Whether somebody said how fp32 products are made: torch's own precision is "highest"."""
    return view.recording.torch_state.get("matmul_precision") != "highest" or _is_set(view, TF32)


def _are_threads_told(view: RecordingView) -> bool:
    """Whether the environment gives a number of threads, or accelerate does: it sets one for each of several processes.

    torchrun puts a number into the environment for several processes, as do the strategies of some frameworks.
    """
    is_one_of_several = view.recording.process["local_world_size"] != 1
    return _is_set(view, THREADS) or (is_one_of_several and "accelerate" in view.recording.software)


def _is_set(view: RecordingView, names: tuple[str, ...]) -> bool:
    return any(view.recording.environment.get(name) for name in names)


def activation_checkpointing(view: RecordingView) -> bool | None:
    """Whether activations are recomputed: seen in a backward, or said by the model; None without either."""
    if any(node.event.kind == "recompute" for node in view.nodes):
        return True
    models = run.root_models(view)
    return any(model["checkpointing"] for model in models) if models else None


def precision(view: RecordingView) -> str | None:
    """fp32, bf16-mixed, fp16-mixed, bf16 or fp16: autocast's dtype over fp32 parameters, else the parameters' own."""
    main, mixed = run.largest(view), run.autocast(view.recording)
    dtype = max(main["dtypes"], key=main["dtypes"].get, default="") if main else ""
    own = PRECISIONS.get(dtype.removeprefix("torch."))
    if own is None or mixed is None:
        return None
    return f"{PRECISIONS[mixed]}-mixed" if own == "fp32" and mixed in ("bfloat16", "float16") else own


def _intervals(view: RecordingView) -> Mapping[str, ObservedValue]:
    """As the framework was told, at its object; else as seen, with no place known."""
    at = training_plan.framework(view.recording).location
    told = {name: training_plan.interval(view, name) for name in INTERVALS}
    seen = {name: interruptions.interval(view, name) for name in interruptions.ROUNDS}
    return {
        f"{name}.interval_steps": ObservedValue(told[name] or seen.get(name), at if told[name] else None)
        for name in INTERVALS
    }


def _data(view: RecordingView) -> Mapping[str, ObservedValue]:
    told = training_plan.framework(view.recording)
    at, grouped = told.location, told.says("data.group_by_length")
    if "train_sampling_strategy" in told.values:
        grouped = told.values["train_sampling_strategy"] == "group_by_length"
    return {
        "data.group_by_length": ObservedValue(grouped, at),
        "data.padding": ObservedValue(_padding(view)),
        "data.max_length": _max_length(view, told.says("data.max_length"), at),
        "data.packing": _packing(told),
    }


def _told(view: RecordingView) -> Mapping[str, ObservedValue]:
    """As the framework's object says; a number below zero says that there is none (max_steps = -1)."""
    told = training_plan.framework(view.recording)
    values = {name: told.says(name) for name in frameworks.observed(told.name) if name in catalogue.settings()}
    return {name: ObservedValue(None if _is_none(value) else value, told.location) for name, value in values.items()}


def _is_none(value: Value | None) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and value < 0


def _packing(told: training_plan.FrameworkArguments) -> ObservedValue:
    """As the framework was told. One without such a setting packs nothing: what a script packs itself is its data."""
    packs = told.says("data.packing")
    return ObservedValue(packs, told.location) if packs is not None else ObservedValue(False, given=False)


def _max_length(view: RecordingView, told: Value | None, at: Location | None) -> ObservedValue:
    """The framework's limit, else where the tokenizer of the train loader cuts."""
    if told is not None:
        return ObservedValue(told, at)
    train = {i for loader in view.loaders if loader.is_train for i in loader.ids}
    cuts = [row.get("max_length") for row in view.recording.loaders if row["id"] in train]
    return ObservedValue(next((cut for cut in cuts if cut is not None), None))


def _padding(view: RecordingView) -> str | None:
    """max_length when every batch has one width that it does not fill, longest when widths follow the samples."""
    known = [batch for batch in train_batches(view) if batch.lengths and batch.width]
    static = lengths.is_static(known)
    if static is None:
        return None
    if static:
        return "max_length"
    return "longest" if len({batch.width for batch in known}) > 1 else None
