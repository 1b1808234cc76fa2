"""The steps of `fit`: from the first training forward on the script trains on fake tensors, in the sizes asked for.

It stands where the what-if probes stand: the hooks ask it for batches and tell it of steps.
"""

from __future__ import annotations

import functools

from .. import clock, ending
from ..what_ifs.batch_copies import shallow, with_length, with_samples
from . import cuda_operators, fake_cuda
from .allocator import peak_reserved
from .fake_parameters import FakeParameters

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Callable

    from ..session import ProbeSession
    from ..shapes import FitRequest, Row
    from .live_storages import LiveStorages

STEPS_AS_IT_IS = 2
"""The first step makes the optimizer's state."""

MOST_STEPS_OF_VARIANT = 4
"""A library may have fetched a batch or two of the size before."""

LEAST_BACKWARDS = 8
"""A script that has made no optimizer after so many has none: from then on each backward is a step."""

MOST_WORK_ROWS = 400


class PlannedSteps:
    """Fake steps of the script, one or more for each size that was asked for. `is_active` once they have begun."""

    def __init__(self, session: ProbeSession, asked: FitRequest) -> None:
        self._session = session
        self._asked = asked
        self._parameters = FakeParameters()
        self._storages: LiveStorages | None = None
        self._batches: dict[int, tuple[Any, Row]] = {}
        self._seen: list[tuple[int, int]] = []
        self._steps = 0
        self._backwards = 0
        self._began = 0
        self._variants: list[Row] = []
        self.rows: list[Row] = []
        self._first: Row | None = None
        self.is_active = False
        self.current = ""
        self._card_use: fake_cuda.CardUse | None = None

    def install(self) -> None:
        """Before the script makes anything: the card that it will see, and parameters that take no memory."""
        patches = self._session.patches
        card = self._asked["card"]
        major, minor = card["capability"]
        self._card_use = fake_cuda.install(patches, card["name"], card["memory_bytes"], (major, minor))
        cuda_operators.install(patches)
        self._parameters.install(patches)

    # What the hooks ask and tell, as of WhatIfProbes

    def keep(self, ref: int, batch: Any, row: Row) -> None:
        """A batch of loader `ref` has come from the script's own data."""
        self._batches[ref] = (shallow(batch), row)

    def next_batch(self, ref: int, step: Callable[[], Any]) -> Any:
        """Another batch like the last one of this loader, of the size that is asked for now."""
        if ref not in self._batches:
            return self._fetched(step)
        batch, row = self._batches[ref]
        size, width = row.get("num_samples"), row.get("width")
        variant = self._variants[0] if self._variants else {}
        if variant.get("samples") and size and size != variant["samples"]:
            batch = with_samples(batch, size, variant["samples"])
        if variant.get("length") and width and width != variant["length"]:
            batch = with_length(batch, width, variant["length"])
        return shallow(batch)

    def _fetched(self, step: Callable[[], Any]) -> Any:
        """What the script's own data gives: it is real, and not of the step."""
        from torch.utils._python_dispatch import _disable_current_modes

        with _disable_current_modes():
            return step()

    def on_forward(self, module: Any, flag: int) -> None:
        """A root model is called with gradients and in training: from the first time on, the step takes no memory."""
        if self.is_active or flag != 3:
            if self.is_active:
                self._take(module)
            return
        self._begin(module)

    @ending.ours
    def _begin(self, module: Any) -> None:
        import torch

        from .live_storages import LiveStorages

        self._session.plan.is_active = True
        self._began = clock.now()
        self._storages = storages = LiveStorages(self._session.recorder)
        modes: list[Any] = [self._parameters.mode, storages.mode()]
        for mode in modes:  # the last one sees an operator first
            mode.__enter__()
            self._session.patches.on_restore(functools.partial(mode.__exit__, None, None, None))
        self._take(module)
        self._session.patches.set(torch, "save", _skipped_save)
        loader = torch.utils.data.DataLoader
        self._session.patches.set(loader, "_get_iterator", _with_real_workers(loader._get_iterator))
        storages.start_step()
        self._variants = [{}]

    @ending.ours
    def _take(self, module: Any) -> None:
        if getattr(module, "_autotune_fake", False):
            return
        module.__dict__["_autotune_fake"] = True
        storages = self._storages
        assert storages is not None
        optimizers = [row["object"]() for row in self._session.optimizers]
        groups = [group for one in optimizers if one is not None for group in one.param_groups]
        given = [parameter for group in groups for parameter in group["params"]]
        for tensor in (*self._parameters.take_module(module), *given):
            self._parameters.take(tensor)
            storages.parameters.add(storages.note(tensor))
        if next(module.parameters(), None) is not None:  # not of a loss, whose inputs are no batch
            module.register_forward_pre_hook(self._note_inputs, with_kwargs=True)

    def _note_inputs(self, module: Any, args: Any, kwargs: Any) -> None:
        import torch

        from ..hooks.batches import leaves

        if not (module.training and torch.is_grad_enabled()):  # an evaluation between two steps
            return
        shapes = [tuple(tensor.shape) for _, tensor in leaves([*args, kwargs]) if tensor.dim()]
        if shapes:
            self._seen.append((shapes[0][0], max((shape[1] for shape in shapes if len(shape) == 2), default=0)))

    @ending.ours
    def on_step(self) -> None:
        """The first optimizer made a step."""
        storages = self._storages
        assert storages is not None
        self._steps += 1
        variant = self._variants[0]
        needed = STEPS_AS_IT_IS if not variant else 1
        seen, self._seen = self._seen, []
        is_wanted = not variant.get("samples") or {size for size, _ in seen} == {variant["samples"]}
        is_done = self._steps >= needed and is_wanted
        if not is_done and not variant and self._first is None:
            kinds = self._kinds(storages)
            storages.count_as_earlier([key for key, kind in kinds.items() if kind == "optimizer"])
            self._first = self._row(storages, seen)
        if is_done or self._steps >= MOST_STEPS_OF_VARIANT:
            if is_done:
                self.rows.append(self._row(storages, seen))
            if not variant:
                self._variants += self._choices(seen)
            self._variants.pop(0)
            self._steps = 0
            if not self._variants:
                ending.leave(self._session)
        storages.start_step()

    def on_backward(self) -> None:
        """A backward ended: the end of a step of a script that updates its parameters by itself."""
        if not self.is_active or self._session.optimizers:
            return
        self._backwards += 1
        if self._backwards > LEAST_BACKWARDS:
            self.on_step()
        else:
            self._seen.clear()

    def _choices(self, seen: list[tuple[int, int]]) -> list[Row]:
        """The sizes that were asked for; twice the script's own where none was, for what a sample takes."""
        if not self._batches or not seen:
            return []
        own, width = seen[-1]
        sizes = [size for size in self._asked["batches"] if size != own]
        if not sizes:
            sizes = [2 * own]
        lengths = [length for length in self._asked["lengths"] if length != width]
        return [{"samples": size} for size in sizes] + [
            {"samples": size, "length": length} for length in lengths for size in [own, *sizes]
        ]

    def _row(self, storages: LiveStorages, seen: list[tuple[int, int]]) -> Row:
        """What one step took: its peaks, and what they consist of."""
        kinds = self._kinds(storages)
        peaks = _peaks(storages, kinds)
        work = sorted(storages.work.items(), key=lambda each: -each[0][1] * each[1])
        return {
            "samples": seen[-1][0] if seen else None,
            "length": (seen[-1][1] or None) if seen else None,
            "micro_batches": len(seen),
            "peaks": peaks,
            "reserved_bytes": peak_reserved(storages.live_at_start.items(), storages.changes),
            "work": [[*size, self._kind(kind), count] for (*size, kind), count in work[:MOST_WORK_ROWS]],
            "num_operators": sum(storages.work.values()),
            "seconds": (clock.now() - self._began) / 1e9,
        }

    def _kind(self, kind: str) -> str:
        """The type as on CUDA: autocast to fp16 works in bf16 here."""
        return (
            "float16"
            if kind == "bfloat16" and self._card_use is not None and self._card_use.autocast == {"float16"}
            else kind
        )

    def _kinds(self, storages: LiveStorages) -> dict[int, str]:
        """What the live storages are, by their keys."""
        kinds = dict.fromkeys(storages.casts, "casts")
        alive = [row["object"]() for row in self._session.optimizers]
        for optimizer in filter(None, alive):
            states = [state.values() for state in optimizer.state.values() if isinstance(state, dict)]
            kept = [value for values in states for value in values if hasattr(value, "untyped_storage")]
            kinds.update((storages.note(value), "optimizer") for value in kept)
            trained = [parameter for group in optimizer.param_groups for parameter in group["params"]]
            kinds.update((storages.note(each.grad), "gradients") for each in trained if each.grad is not None)
            kinds.update((storages.note(each), "weights") for each in trained)
        for module in filter(None, [row["object"]() for row in self._session.models]):
            kinds.update((storages.note(each), "weights") for each in (*module.parameters(), *module.buffers()))
        return kinds

    # The end

    def row(self) -> Row:
        """For the Recording."""
        storages = self._storages
        made_up = storages.made_up if storages is not None else {}
        return {
            "steps": self.rows or [self._first] * (self._first is not None),
            "made_up": [
                {"file": file, "operator": name, "line": line, "value": value}
                for (file, name, line), value in made_up.items()
            ],
            "breaks": storages.breaks[-3:] if storages is not None else [],
            "began": storages is not None,
            "compiles": self._card_use is not None and self._card_use.compiles,
            "has_optimizer": bool(self._session.optimizers),
            **self._layers(),
        }

    def _layers(self) -> Row:
        """Bytes of the largest of the repeated layers, which FSDP gathers one by one, and of all that is in none."""
        modules = [module for row in self._session.models if (module := row["object"]()) is not None]
        layers = [layer for module in modules for layer in _repeated(module)] or _longest(modules)
        trained = {id(each): each for module in modules for each in module.parameters() if each.requires_grad}
        found: Row = {"largest_layer_bytes": None, "outside_layers_bytes": None}
        if layers:
            found = {
                "largest_layer_bytes": max(map(_parameter_bytes, layers)),
                "outside_layers_bytes": _parameter_bytes(*modules) - _parameter_bytes(*layers),
            }
        return {
            **found,
            "num_trained": sum(each.numel() for each in trained.values()),
            "trained_bytes": sum(each.numel() * each.element_size() for each in trained.values()),
        }

    def is_overdue(self) -> bool:
        """Fake steps have no limit of their own: the parent ends what takes too long."""
        return False

    def begin(self) -> None:
        """The window of a measurement never begins here."""

    def failed(self, error: BaseException) -> None:
        """The script ends by its own exception, which is recorded."""

    def abandon(self) -> None:
        """The script ended by itself."""
        self.is_active = False


def _skipped_save(obj: Any, f: Any, *args: Any, **kwargs: Any) -> None:
    """torch.save of a model without memory writes nothing."""


def _with_real_workers(get_iterator: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """A loader that the script starts between two fake steps, as for an evaluation: the tensors of its workers, which
    are forks of this process, are real."""

    @functools.wraps(get_iterator)
    def _get_iterator(self: Any) -> Any:
        from torch.utils._python_dispatch import _disable_current_modes

        with _disable_current_modes():
            return get_iterator(self)

    return _get_iterator


def _repeated(module: Any) -> list[Any]:
    """The layers of every outermost list of modules of one class: an encoder's and a decoder's are two lists."""
    import torch

    children = list(module.children())
    is_list = isinstance(module, (torch.nn.ModuleList, torch.nn.Sequential))
    if is_list and len(children) > 1 and len({type(each) for each in children}) == 1:
        return children if _parameter_bytes(module) else []
    return [layer for each in children for layer in _repeated(each)]


def _longest(modules: list[Any]) -> list[Any]:
    """The layers of the largest list of any classes."""
    import torch

    lists = [
        list(each.children())
        for module in modules
        for each in module.modules()
        if isinstance(each, (torch.nn.ModuleList, torch.nn.Sequential)) and len(each) > 1
    ]
    return max(lists, key=lambda layers: sum(map(_parameter_bytes, layers)), default=[])


def _parameter_bytes(*modules: Any) -> int:
    """Bytes of all parameters of `modules`; one that several share counts once."""
    found = {id(parameter): parameter for module in modules for parameter in module.parameters()}
    return sum(parameter.numel() * parameter.element_size() for parameter in found.values())


def _peaks(storages: LiveStorages, kinds: dict[int, str]) -> Row:
    """The largest sum of live bytes in each phase, with its parts."""
    live = dict(storages.live_at_start)
    total = sum(live.values())
    best: dict[str, tuple[int, int]] = {}
    for index, ((key, size), phase) in enumerate(zip(storages.changes, storages.phases)):
        total += size if size else -live.pop(key)
        if size:
            live[key] = size
        if total > best.get(phase, (0, 0))[0]:
            best[phase] = (total, index)
    return {phase: {"bytes": total, "parts": _parts(storages, kinds, index)} for phase, (total, index) in best.items()}


def _parts(storages: LiveStorages, kinds: dict[int, str], until: int) -> Row:
    """What was live after change number `until`: weights, their casts, gradients, optimizer, and the rest."""
    live = dict(storages.live_at_start)
    for key, size in storages.changes[: until + 1]:
        if size:
            live[key] = size
        else:
            live.pop(key)
    parts = dict.fromkeys(("weights", "casts", "gradients", "optimizer", "rest"), 0)
    for key, size in live.items():
        parts[kinds.get(key, "rest")] += size
    return parts
