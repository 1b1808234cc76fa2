"""What the script's framework was told: its name, its length, its intervals."""

from __future__ import annotations

import math

from msgspec import Struct

from autotune.catalogue import frameworks
from autotune.catalogue.frameworks import IntervalKind
from autotune.derive.recording_view import RecordingView
from autotune.derive.step import train_batches
from autotune.derive.summary_statistics import most_common
from autotune.model.evidence import Location, Value
from autotune.model.recording import Json, Recording

HALF = 0.5


class FrameworkArguments(Struct, frozen=True):
    """`values` are the fields of its own object (TrainingArguments, Accelerator, Trainer), made at `location`."""

    name: str
    values: Json
    location: Location | None

    def says(self, name: str) -> Value | None:
        """What the object says of a setting or fact; None where it says nothing."""
        said: Value | None = self.values.get(frameworks.observed(self.name).get(name, ""))
        return said


def framework(recording: Recording) -> FrameworkArguments:
    """The outermost that was seen: trl, not the hf_trainer that it is built on, nor what that uses; raw for none."""
    for key, name in frameworks.settings_objects().items():
        entry = recording.frameworks.get(key)
        if entry:
            return FrameworkArguments(_built_on(name, entry), entry["values"], location(entry["site"], entry["type"]))
    return FrameworkArguments("raw", {}, None)


def _built_on(name: str, entry: Json) -> str:
    """The framework that extends the object's class, by the package of that; else the object's own."""
    package = str(entry.get("module", "")).split(".")[0]
    known = frameworks.frameworks().values()
    return next((one.name for one in known if one.built_on == name and package in one.packages), name)


def has_own_loop(name: str) -> bool:
    """Whether the script's own loop goes through the epochs."""
    known = frameworks.frameworks()
    return name not in known or known[name].loop == "script"


def can_pack(recording: Recording) -> bool | None:
    """Whether the Trainer can put several samples into one row, by its class.

    Of the classes that it extends the nearest that is known counts. None where no Trainer was seen.
    """
    seen = (entry["values"].get("classes") for entry in recording.frameworks.values())
    classes = next((names for names in seen if names is not None), None)
    if classes is None:
        return None
    known = frameworks.packing()
    return next((known[name] for name in classes if name in known), False)


def location(site: Json | None, call: str) -> Location | None:
    """The Location of a CallSite in the user's own files; a library's is not theirs to edit."""
    return Location(site["file"], site["line"], call) if site and site["file"] and site["is_user"] else None


def accumulation(view: RecordingView) -> int | None:
    """Micro-batches per optimizer step: training batches fetched in most steps, else as the framework was told.

    Without a DataLoader it is the backwards of most steps, when there is one optimizer: several optimizers
    have several backwards for one batch, and so has a closure.
    """
    seen = _usual(view.per_step(_micro_batch_starts(view)))
    if seen is not None:
        return seen
    return configured_accumulation(framework(view.recording))


def configured_accumulation(told: FrameworkArguments) -> int | None:
    """Accumulation steps as the framework was told; None when it was not."""
    return _positive(told.says("train.accumulation_steps"))


def _positive(told: Value | None) -> int | None:
    """A whole number above 0; None for everything else that a field may hold: -1, infinity."""
    return int(told) if isinstance(told, int | float) and 0 < told < math.inf else None


def _micro_batch_starts(view: RecordingView) -> list[int]:
    fetched = view.train_fetches()
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
    """Batches of the train loader from one of its starts to the next: all, or as many as the framework takes."""
    told = _positive(framework(view.recording).says("loader.num_batches"))
    if told is not None:
        return told
    return None if view.train is None else view.train.timed["num_batches"] or view.train.own["num_batches"]


def num_steps(view: RecordingView) -> int | None:
    """Optimizer steps of the whole planned run, where the framework knows them."""
    told = framework(view.recording)
    steps = _positive(told.says("train.max_steps")) or _positive(told.says("run.num_planned_steps"))
    if steps is not None:
        return steps
    epochs, per_epoch = _planned_epochs(view), steps_per_epoch(view)
    return math.ceil(epochs * per_epoch) if epochs is not None and per_epoch else None


def num_epochs(view: RecordingView) -> float | None:
    """Epochs of the whole planned run; from its steps when it is limited by steps."""
    steps = _positive(framework(view.recording).says("train.max_steps"))
    if steps is not None:
        per_epoch = steps_per_epoch(view)
        return steps / per_epoch if per_epoch else None
    return _planned_epochs(view)


def _planned_epochs(view: RecordingView) -> float | None:
    """As the framework's object was told; a loop of the script's own counts them in its code."""
    found = framework(view.recording)
    if has_own_loop(found.name):
        return view.code_epochs
    epochs = found.says("train.epochs")
    return float(epochs) if isinstance(epochs, int | float) and epochs > 0 else None


def interval(view: RecordingView, kind: IntervalKind) -> int | None:
    """Optimizer steps between two saves, evaluations or log lines as the framework was told; None when it was not, or
    when they never come."""
    told = framework(view.recording)
    of = frameworks.interval(told.name, kind)
    if of is None or told.values.get(of.enabled) is False:
        return None
    if of.batches in told.values:
        return _of_batches(view, told.values[of.batches], told.values.get(of.epochs))
    strategy = told.values.get(of.strategy) if of.strategy else "steps"
    if strategy == "epoch":
        return steps_per_epoch(view)
    said = next((told.values[name] for name in of.steps if told.values.get(name)), None)
    if strategy != "steps" or said is None:
        return None
    if said >= 1:
        return int(said)
    planned = num_steps(view)
    return math.ceil(said * planned) if planned else None


def _of_batches(view: RecordingView, interval: float, epochs: int | None) -> int | None:
    """Optimizer steps of an interval that counts batches when it is an int, and is a share of the epoch otherwise."""
    per_epoch, per_step = steps_per_epoch(view), accumulation(view)
    if isinstance(interval, int):
        return max(1, interval // per_step) if per_step else None
    return round(per_epoch * interval * (epochs or 1)) or None if per_epoch else None
