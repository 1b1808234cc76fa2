"""The frameworks' own objects: what they were configured with, and their saves, evaluations and logs.

Which classes, methods and fields these are stands in the Request, a row of `frameworks` for each class. Everything here
reads; nothing is needed for the measurement itself, which rests on torch's seams.
"""

from __future__ import annotations

import functools
import math
import weakref

from .. import SAVING_AND_LOGGING, call_sites
from ..recorder import timed
from . import resume

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from ..session import ProbeSession
    from ..shapes import CallSite, HookedClass, Row

LIGHTNING_PROFILERS = {
    "PassThroughProfiler": "none",
    "SimpleProfiler": "simple",
    "AdvancedProfiler": "advanced",
    "PyTorchProfiler": "pytorch",
}
"""What the Trainer takes for a profiler, by its class; "none" of the one that does nothing."""

DIVIDED = ("None", "CausalLM", "MaskedLM", "TokenClassification", "ConditionalGeneration", "SemanticSegmentation")
"""Losses of transformers (loss/loss_utils.py, by `loss_type`) that divide by num_items_in_batch; without a type it is
that of a causal language model."""

DIVIDING = ("compute_loss", "training_step", "get_batch_samples", "_get_num_items_in_batch")
"""Methods of transformers' Trainer that decide whether losses of micro-batches are divided."""


class Observed:
    """Weak references to the frameworks' objects, read when the Recording is written."""

    def __init__(self, rows: list[HookedClass]) -> None:
        """`rows` are `frameworks` of the Request."""
        self._rows = {row["object"]: row for row in rows if row["object"]}
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
                    "values": values(thing, self._rows[name]),
                }
        return dict(self._known)


def on_import(session: ProbeSession, module: Any) -> None:
    """Hook what a module defines, right after it was imported."""
    hook = SAVING_AND_LOGGING.get(module.__name__)
    if hook is not None:
        globals()[hook](session, module)
    for row in session.request["frameworks"]:
        if row["module"] == module.__name__:
            _hook(session, getattr(module, row["type"]) if row["type"] else module, row)
    resume.on_import(session, module)


def _hook(session: ProbeSession, owner: Any, row: HookedClass) -> None:
    """Note the instances of a framework's class, and time its methods; a module has functions only."""
    if row["object"]:
        _note_instances(session, owner, row["object"], row["after"])
    for name, kind in row["times"].items():
        _wrap(session, owner, name, kind)


def _wrap(session: ProbeSession, owner: Any, name: str, kind: str) -> None:
    function = getattr(owner, name, None)
    if function is not None:
        session.patches.set(owner, name, timed(session.recorder, kind, function))


def _note_instances(session: ProbeSession, owner: Any, name: str, method: str) -> None:
    """Remember each instance after `method` (its constructor) ran."""
    function = getattr(owner, method)

    @functools.wraps(function)
    def noted(self: Any, *args: Any, **kwargs: Any) -> Any:
        result = function(self, *args, **kwargs)
        if session.recorder.on:
            session.observed.note(name, self)
        return result

    session.patches.set(owner, method, noted)


def _hook_logging(session: ProbeSession, module: Any) -> None:
    _wrap(session, module.Logger, "callHandlers", "logging")


def _hook_tensorboard(session: ProbeSession, module: Any) -> None:
    for name in [name for name in vars(module.SummaryWriter) if name.startswith("add_")]:
        _wrap(session, module.SummaryWriter, name, "logging")


def _hook_wandb(session: ProbeSession, module: Any) -> None:
    _wrap(session, module.Run, "log", "logging")


def _hook_safetensors(session: ProbeSession, module: Any) -> None:
    for name in ("save_file", "save_model"):
        _wrap(session, module, name, "checkpoint")


def _plain(value: Any) -> bool | int | float | str | None:
    """A value that JSON has, an enum as its value; None for others, e.g. the infinite length of an iterable dataset."""
    value = getattr(value, "value", value)
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value if isinstance(value, (bool, int, float, str)) else None


def values(thing: Any, row: HookedClass) -> Row:
    """The fields of `thing` that its row names, and what the row's reader finds."""
    reader = READERS.get(row["read"])
    return {**_fields(thing, row["fields"]), **(reader(thing) if reader is not None else {})}


def _fields(thing: Any, names: list[str]) -> Row:
    values = {}
    for name in names:
        try:
            values[name] = _plain(getattr(thing, name))
        except Exception:  # a property that fails before fit, or a field that this version does not have
            continue
    return {name: value for name, value in values.items() if value is not None}


def _trainer(thing: Any) -> Row:
    """Its class and the classes that this one extends, up to the Trainer, as "package.name"; whether losses add up."""
    line = [cls for cls in type(thing).__mro__ if cls.__name__.endswith("Trainer")]
    try:
        adds_up = _adds_losses(thing)
    except Exception:  # a model or a Trainer that is not as transformers has them
        adds_up = None
    return {"classes": [f"{cls.__module__.partition('.')[0]}.{cls.__name__}" for cls in line], "adds_losses": adds_up}


def _adds_losses(trainer: Any) -> bool | None:
    """Whether the losses of a step's micro-batches are added up undivided: neither the Trainer nor the model divides.

    The Trainer leaves it to a model whose forward takes keyword arguments (transformers 5.23 trainer.py training_step
    and __init__), which it tells num_items_in_batch; many models compute a mean of their own batch all the same. None
    where code of the user's, label smoothing, or a model that is not of transformers decides.
    """
    if not all(_is_of_transformers(trainer, name) for name in DIVIDING):
        return None
    if trainer.compute_loss_func is not None or trainer.label_smoother is not None:
        return None
    scaled = getattr(trainer, "loss_is_scaled_for_ga", None)
    if not (trainer.model_accepts_loss_kwargs if scaled is None else scaled):
        return False
    model = trainer.model
    divides = _divides(model.get_base_model() if hasattr(model, "get_base_model") else model)
    return None if divides is None else not divides


def _is_of_transformers(trainer: Any, name: str) -> bool:
    """Whether a method is the library's own; also one that this release does not have."""
    method = getattr(type(trainer), name, None)
    return name not in vars(trainer) and (method is None or method.__module__.startswith("transformers."))


def _divides(model: Any) -> bool | None:
    """Whether the loss of a model of transformers is a sum over num_items_in_batch, as its forward is written."""
    import inspect

    forward = inspect.unwrap(type(model).forward)
    # Without labels the Trainer counts no items, and divides.
    if not forward.__module__.startswith("transformers.") or "labels" not in inspect.signature(forward).parameters:
        return None
    names = {*forward.__code__.co_names, *forward.__code__.co_varnames}
    if "num_items_in_batch" in names:
        return True
    if "loss_function" not in names:
        return False if any(name.endswith(("Loss", "cross_entropy")) for name in names) else None
    kind = str(getattr(model, "loss_type", None))
    if "_loss_function" in vars(model) or kind.endswith(("Detection", "InstanceSegmentation")):
        return None
    if not _hands_on(inspect.getsource(forward)):
        return False
    # loss/loss_utils.py: the losses of regression and of several labels are means.
    if kind.endswith("Classification") and kind != "ForTokenClassification":
        problem = getattr(model.config, "problem_type", None)
        return None if problem is None and model.config.num_labels > 1 else problem == "single_label_classification"
    return True if kind.endswith(DIVIDED) else None


def _hands_on(source: str) -> bool:
    """Whether a forward calls its loss_function with the keyword arguments that it was given."""
    import ast
    import textwrap

    calls = (node for node in ast.walk(ast.parse(textwrap.dedent(source))) if isinstance(node, ast.Call))
    losses = [call for call in calls if isinstance(call.func, ast.Attribute) and call.func.attr == "loss_function"]
    return bool(losses) and all(any(keyword.arg is None for keyword in call.keywords) for call in losses)


def _lightning_profiler(thing: Any) -> Row:
    profiler = type(getattr(thing, "profiler", None)).__name__
    return {"profiler": LIGHTNING_PROFILERS.get(profiler, profiler)}


READERS = {"trainer": _trainer, "lightning_profiler": _lightning_profiler}
"""What a row may name to read what is no plain field."""
