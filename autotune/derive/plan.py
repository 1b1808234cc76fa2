"""What the script's framework was told: its name, its length, its intervals."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping

from msgspec import Struct

from autotune.catalogue import trainers
from autotune.derive.numbers import most_common
from autotune.derive.recording_view import RecordingView
from autotune.derive.step import train_batches, train_fetches
from autotune.model.evidence import Location
from autotune.model.recording import Json, Recording

HALF = 0.5


class Framework(Struct, frozen=True):
    """`values` are the fields of its own object (TrainingArguments, Accelerator, Trainer), made at `location`."""

    name: str
    values: Json
    location: Location | None


def framework(recording: Recording) -> Framework:
    """hf_trainer or what builds on it (trl ...), lightning, fabric, accelerate or raw: the outermost that was seen."""
    for key, name in _NAMES:
        entry = recording.frameworks.get(key)
        if entry:
            return Framework(_built_on(name, entry), entry["values"], location(entry["site"], entry["type"]))
    return Framework("raw", {}, None)


_NAMES = (
    ("hf_args", "hf_trainer"),
    ("lightning", "lightning"),
    ("fabric", "fabric"),
    ("accelerator", "accelerate"),
)
"""TrainingArguments first: the Trainer makes an Accelerator of its own."""

OWN_LOOPS = ("raw", "accelerate", "fabric")
"""Where the script's own loop goes through the epochs."""

BUILT_ON_TRAINER = ("trl", "llamafactory", "axolotl")
"""Packages that extend TrainingArguments."""


def _built_on(name: str, entry: Json) -> str:
    package = str(entry.get("module", "")).split(".")[0]
    return package if package in BUILT_ON_TRAINER else name


def can_pack(recording: Recording) -> bool | None:
    """Whether the Trainer can put several samples into one row, by its class (catalogue/trainers.toml).

    Of the classes that it extends the nearest that is known counts. None where no Trainer was seen.
    """
    entry = recording.frameworks.get("hf_trainer")
    if entry is None:
        return None
    known = trainers.packing()
    return next((known[name] for name in entry["values"]["classes"] if name in known), False)


def location(site: Json | None, call: str) -> Location | None:
    """The Location of a Site in the user's own files; a library's is not theirs to edit."""
    return Location(site["file"], site["line"], call) if site and site["file"] and site["is_user"] else None


def accumulation(view: RecordingView) -> int | None:
    """Micro-batches per optimizer step: training batches fetched in most steps, else as the framework was told.

    Without a DataLoader it is the backwards of most steps, when there is one optimizer: several optimizers
    have several backwards for one batch, and so has a closure.
    """
    seen = _usual(view.per_step(_micro_batch_starts(view)))
    if seen is not None:
        return seen
    return configured_accumulation(framework(view.recording).values)


def configured_accumulation(values: Json) -> int | None:
    """Accumulation steps as the framework was told; None when it was not."""
    told = values.get("gradient_accumulation_steps", values.get("accumulate_grad_batches"))
    return int(told) if told else None


def _micro_batch_starts(view: RecordingView) -> list[int]:
    fetched = train_fetches(view)
    if fetched or len(view.recording.optimizers) > 1:
        return fetched
    return [node.start_ns for node, _ in view.in_window("backward") if node.outermost and not node.inside("optimizer")]


def _usual(counts: list[int]) -> int | None:
    """The count of at least half of the steps; the last step of an epoch may have fewer."""
    usual = most_common(counts)
    return usual[0] if usual and usual[0] > 0 and usual[1] >= HALF else None


def micro_batch(view: RecordingView) -> int | None:
    """Samples per micro-batch: of most batches seen, or the loader's batch_size."""
    seen = most_common(b.num_samples for b in train_batches(view) if b.num_samples is not None)
    if seen:
        return seen[0]
    size = view.train.own["arguments"].get("batch_size") if view.train else None
    return None if size is None else int(size)


def steps_per_epoch(view: RecordingView) -> int | None:
    """Optimizer steps per epoch: batches per epoch / accumulation, rounded up as the Trainers do."""
    batches, per_step = batches_per_epoch(view), accumulation(view)
    return math.ceil(batches / per_step) if batches and per_step else None


def batches_per_epoch(view: RecordingView) -> int | None:
    """Batches of the train loader from one of its starts to the next: all, or as many as Lightning is told to take."""
    told = framework(view.recording).values.get("num_training_batches")
    if told is not None and 0 < told < math.inf:
        return int(told)
    return None if view.train is None else view.train.timed["num_batches"] or view.train.own["num_batches"]


def num_steps(view: RecordingView) -> int | None:
    """Optimizer steps of the whole planned run, where the framework knows them."""
    values = framework(view.recording).values
    if values.get("max_steps", 0) > 0:
        return int(values["max_steps"])
    estimated = values.get("estimated_stepping_batches")
    if estimated is not None and 0 < estimated < math.inf:
        return int(estimated)
    epochs, per_epoch = _planned_epochs(view), steps_per_epoch(view)
    return math.ceil(epochs * per_epoch) if epochs is not None and per_epoch else None


def num_epochs(view: RecordingView) -> float | None:
    """Epochs of the whole planned run; from its steps when it is limited by steps."""
    values = framework(view.recording).values
    if values.get("max_steps", 0) > 0:
        per_epoch = steps_per_epoch(view)
        return values["max_steps"] / per_epoch if per_epoch else None
    return _planned_epochs(view)


def _planned_epochs(view: RecordingView) -> float | None:
    """As the framework's object was told; a loop of the script's own counts them in its code."""
    found = framework(view.recording)
    if found.name in OWN_LOOPS:
        return view.code_epochs
    values = found.values
    epochs = values.get("num_train_epochs", values.get("max_epochs"))
    return float(epochs) if epochs is not None and epochs > 0 else None


def checkpoint_interval(view: RecordingView) -> int | None:
    """Optimizer steps between two saves as the framework was told; None when it was not, or saves never."""
    return _interval(view, "save_strategy", "save_steps")


def logging_interval(view: RecordingView) -> int | None:
    """Optimizer steps between two log lines as the framework was told."""
    values = framework(view.recording).values
    if "log_every_n_steps" in values:
        return int(values["log_every_n_steps"]) or None
    return _interval(view, "logging_strategy", "logging_steps")


def evaluation_interval(view: RecordingView) -> int | None:
    """Optimizer steps between two evaluations as the framework was told."""
    values = framework(view.recording).values
    if "val_check_interval" in values:
        return _lightning_evaluation(view, values)
    told = _interval(view, "eval_strategy", "eval_steps")
    # transformers evaluates every logging_steps when eval_steps is not given.
    return told if told is not None else _interval(view, "eval_strategy", "logging_steps")


def _interval(view: RecordingView, strategy: str, steps: str) -> int | None:
    """An interval of TrainingArguments; a float under 1 is a share of the run."""
    values = framework(view.recording).values
    if values.get(strategy) == "epoch":
        return steps_per_epoch(view)
    told = values.get(steps)
    if values.get(strategy) != "steps" or not told:
        return None
    if told >= 1:
        return int(told)
    planned = num_steps(view)
    return math.ceil(told * planned) if planned else None


def _lightning_evaluation(view: RecordingView, values: Json) -> int | None:
    """`val_check_interval` counts batches when it is an int and is a share of the epoch when it is a float.

    It is told of a run without a validation loop, too.
    """
    if values.get("enable_validation") is False:
        return None
    interval, per_epoch, per_step = values["val_check_interval"], steps_per_epoch(view), accumulation(view)
    epochs = values.get("check_val_every_n_epoch")
    if isinstance(interval, int):
        return max(1, interval // per_step) if per_step else None
    return round(per_epoch * interval * (epochs or 1)) or None if per_epoch else None


INTERVALS: Mapping[str, Callable[[RecordingView], int | None]] = {
    "checkpoint": checkpoint_interval,
    "evaluation": evaluation_interval,
    "logging": logging_interval,
}
