"""The frameworks' own objects: what they were configured with, and their saves, evaluations and logs.

Everything here reads; nothing is needed for the measurement itself, which rests on torch's seams.
"""

from __future__ import annotations

import functools
import math
import weakref

from .. import call_sites
from ..recorder import timed
from . import resume

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from ..session import ProbeSession
    from ..shapes import CallSite, Row

HF_FIELDS = (
    "per_device_train_batch_size", "per_device_eval_batch_size", "gradient_accumulation_steps", "max_steps",
    "num_train_epochs", "dataloader_num_workers", "dataloader_prefetch_factor", "dataloader_persistent_workers",
    "dataloader_pin_memory", "gradient_checkpointing", "activation_checkpointing", "bf16", "fp16", "tf32", "optim",
    "torch_compile", "torch_compile_mode", "torch_empty_cache_steps", "group_by_length", "train_sampling_strategy",
    "length_column_name", "save_strategy", "save_steps", "save_total_limit", "save_only_model", "eval_strategy",
    "eval_steps", "eval_on_start", "logging_strategy", "logging_steps", "load_best_model_at_end", "max_length",
    "packing", "padding_free", "use_liger_kernel", "full_determinism", "remove_unused_columns", "debug",
    "ddp_find_unused_parameters", "ddp_static_graph", "logging_nan_inf_filter", "learning_rate", "use_cpu",
    "skip_memory_metrics",
)  # fmt: skip
"""Fields of TrainingArguments and its subclasses that are read: an allowlist, no names, paths or tokens."""

LIGHTNING_FIELDS = (
    "accumulate_grad_batches", "max_epochs", "max_steps", "check_val_every_n_epoch", "val_check_interval",
    "enable_validation", "log_every_n_steps", "num_training_batches", "estimated_stepping_batches",
    "limit_train_batches", "precision", "num_devices", "world_size", "detect_anomaly", "_detect_anomaly",
    "reload_dataloaders_every_n_epochs",
)  # fmt: skip

LIGHTNING_PROFILERS = {
    "PassThroughProfiler": "none",
    "SimpleProfiler": "simple",
    "AdvancedProfiler": "advanced",
    "PyTorchProfiler": "pytorch",
}
"""What the Trainer takes for a profiler, by its class; "none" of the one that does nothing."""


class Observed:
    """Weak references to the frameworks' objects, read when the Recording is written."""

    def __init__(self) -> None:
        self._objects: dict[str, tuple[weakref.ref[Any], CallSite]] = {}
        self._known: Row = {}

    def newest(self, name: str) -> Any:
        """What was noted by that name; None when nothing was, or when it is gone."""
        ref, _ = self._objects.get(name, (None, None))
        return ref() if ref is not None else None

    def note(self, name: str, thing: Any) -> None:
        """Remember the newest `thing` of a kind and where the user made it."""
        self._objects[name] = (weakref.ref(thing), call_sites.user_caller())

    def describe(self) -> Row:
        """{"hf_args": {"type", "module", "site", "values"}, ...}; values that cannot be read are left out.

        What was once read survives its object: a short script's is gone when the Recording is written.
        """
        for name, (ref, site) in self._objects.items():
            thing = ref()
            if thing is not None:
                self._known[name] = {
                    "type": type(thing).__name__,
                    "module": type(thing).__module__,
                    "site": site,
                    "values": _VALUES[name](thing),
                }
        return dict(self._known)


def on_import(session: ProbeSession, module: Any) -> None:
    """Hook what a framework module defines, right after it was imported."""
    action = _ACTIONS.get(module.__name__)
    if action is not None:
        action(session, module)
    resume.on_import(session, module)


def _wrap(session: ProbeSession, owner: Any, name: str, kind: str) -> None:
    function = getattr(owner, name, None)
    if function is not None:
        session.patches.set(owner, name, timed(session.recorder, kind, function))


def _note_instances(session: ProbeSession, owner: Any, name: str, method: str = "__init__") -> None:
    """Remember each instance after `method` (its constructor) ran."""
    function = getattr(owner, method)

    @functools.wraps(function)
    def noted(self: Any, *args: Any, **kwargs: Any) -> Any:
        result = function(self, *args, **kwargs)
        if session.recorder.on:
            session.observed.note(name, self)
        return result

    session.patches.set(owner, method, noted)


def _training_args(session: ProbeSession, module: Any) -> None:
    _note_instances(session, module.TrainingArguments, "hf_args", "__post_init__")


def _trainer(session: ProbeSession, module: Any) -> None:
    _note_instances(session, module.Trainer, "hf_trainer")
    for name, kind in (("_save_checkpoint", "checkpoint"), ("save_model", "checkpoint"), ("log", "logging")):
        _wrap(session, module.Trainer, name, kind)
    for name in ("evaluate", "evaluation_loop", "prediction_loop"):
        _wrap(session, module.Trainer, name, "evaluation")


def _accelerator(session: ProbeSession, module: Any) -> None:
    _note_instances(session, module.Accelerator, "accelerator")
    _wrap(session, module.Accelerator, "save_state", "checkpoint")
    _wrap(session, module.Accelerator, "log", "logging")


def _lightning(session: ProbeSession, module: Any) -> None:
    _note_instances(session, module.Trainer, "lightning")
    _wrap(session, module.Trainer, "save_checkpoint", "checkpoint")


def _lightning_evaluation(session: ProbeSession, module: Any) -> None:
    _wrap(session, module._EvaluationLoop, "run", "evaluation")


def _fabric(session: ProbeSession, module: Any) -> None:
    _note_instances(session, module.Fabric, "fabric")
    _wrap(session, module.Fabric, "save", "checkpoint")
    for name in ("log", "log_dict"):
        _wrap(session, module.Fabric, name, "logging")


def _logging(session: ProbeSession, module: Any) -> None:
    _wrap(session, module.Logger, "callHandlers", "logging")


def _tensorboard(session: ProbeSession, module: Any) -> None:
    for name in [name for name in vars(module.SummaryWriter) if name.startswith("add_")]:
        _wrap(session, module.SummaryWriter, name, "logging")


def _wandb(session: ProbeSession, module: Any) -> None:
    _wrap(session, module.Run, "log", "logging")


def _safetensors(session: ProbeSession, module: Any) -> None:
    for name in ("save_file", "save_model"):
        _wrap(session, module, name, "checkpoint")


_ACTIONS = {
    "logging": _logging,
    "safetensors.torch": _safetensors,
    "torch.utils.tensorboard.writer": _tensorboard,
    "transformers.training_args": _training_args,
    "transformers.trainer": _trainer,
    "accelerate.accelerator": _accelerator,
    "lightning.pytorch.trainer.trainer": _lightning,
    "pytorch_lightning.trainer.trainer": _lightning,
    "lightning.pytorch.loops.evaluation_loop": _lightning_evaluation,
    "pytorch_lightning.loops.evaluation_loop": _lightning_evaluation,
    "lightning.fabric.fabric": _fabric,
    "lightning_fabric.fabric": _fabric,
    "wandb.sdk.wandb_run": _wandb,
}


def _plain(value: Any) -> bool | int | float | str | None:
    """A value that JSON has, an enum as its value; None for others, e.g. the infinite length of an iterable dataset."""
    value = getattr(value, "value", value)
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value if isinstance(value, (bool, int, float, str)) else None


def _fields(thing: Any, names: tuple[str, ...]) -> Row:
    values = {}
    for name in names:
        try:
            values[name] = _plain(getattr(thing, name))
        except Exception:  # a property that fails before fit, or a field that this version does not have
            continue
    return {name: value for name, value in values.items() if value is not None}


def _hf_values(thing: Any) -> Row:
    return _fields(thing, HF_FIELDS)


def _trainer_values(thing: Any) -> Row:
    """Its class and the classes that this one extends, up to the Trainer, as "package.name"."""
    line = [cls for cls in type(thing).__mro__ if cls.__name__.endswith("Trainer")]
    return {"classes": [f"{cls.__module__.partition('.')[0]}.{cls.__name__}" for cls in line]}


def _accelerator_values(thing: Any) -> Row:
    return _fields(thing, ("gradient_accumulation_steps", "mixed_precision", "num_processes", "split_batches"))


def _lightning_values(thing: Any) -> Row:
    profiler = type(getattr(thing, "profiler", None)).__name__
    return {**_fields(thing, LIGHTNING_FIELDS), "profiler": LIGHTNING_PROFILERS.get(profiler, profiler)}


def _fabric_values(thing: Any) -> Row:
    return _fields(thing, ("world_size",))


_VALUES = {
    "hf_args": _hf_values,
    "hf_trainer": _trainer_values,
    "accelerator": _accelerator_values,
    "lightning": _lightning_values,
    "fabric": _fabric_values,
}
